-- Runs of connectors and changes of webhook endpoints are in the audit feed, in their own transaction.
-- suits the running release: it writes the same rows.

create function sync.audit_run() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  is_begin constant pg_catalog.bool := tg_op = 'INSERT';
begin
  insert into tenancy.audit_event (
    tenant_id, category, action, outcome, reason, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name,
    request_id)
  select new.tenant_id, 'connector',
         case
           when not is_begin then 'connector.run_finished'
           when new.mode = 'rollback' then 'connector.run_undone'
           else 'connector.run_started'
         end,
         case when new.status = 'failed' then 'failure' else 'success' end,
         case when is_begin then new.reason when new.status <> 'succeeded' then coalesce(new.failure, new.status) end,
         case when is_begin then tenancy.audit_actor_type(new.created_by_type) else 'system' end,
         case when is_begin then new.created_by_id end,
         case when is_begin then new.created_by_label else 'Postern' end,
         'sync_run', new.id::pg_catalog.text, c.name, case when is_begin then new.request_id end
    from sync.connector as c
   where c.tenant_id = new.tenant_id and c.id = new.connector_id;
  return null;
end
$$;
create trigger audits_begun after insert on sync.run for each row
  when (new.source = 'connector') execute function sync.audit_run();
create trigger audits_finished after update on sync.run for each row
  when (new.source = 'connector' and old.finished_at is null and new.finished_at is not null)
  execute function sync.audit_run();

create function sync.audit_webhook() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  insert into tenancy.audit_event (
    tenant_id, at, category, action, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name)
  select new.tenant_id, new.at, 'webhook', 'webhook.' || new.type, tenancy.audit_actor_type(new.actor_type), new.actor_id,
         new.actor_label, 'webhook', e.id::pg_catalog.text, nullif(e.description, '')
    from sync.webhook_endpoint as e
   where e.tenant_id = new.tenant_id and e.id = new.endpoint_id;
  return null;
end
$$;
create trigger audits_webhook after insert on sync.webhook_trail for each row execute function sync.audit_webhook();
