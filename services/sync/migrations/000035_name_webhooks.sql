-- In the audit feed, an endpoint without a description has the name of its host, or its addresses.
-- suits the running release: it writes the same rows.

create or replace function sync.audit_webhook() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  insert into tenancy.audit_event (
    tenant_id, at, category, action, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name)
  select new.tenant_id, new.at, 'webhook', 'webhook.' || new.type, tenancy.audit_actor_type(new.actor_type), new.actor_id,
         new.actor_label, 'webhook', e.id::pg_catalog.text,
         coalesce(nullif(e.description, ''), pg_catalog."substring"(e.url, '://([^/?#]+)'), e.url)
    from sync.webhook_endpoint as e
   where e.tenant_id = new.tenant_id and e.id = new.endpoint_id;
  return null;
end
$$;
