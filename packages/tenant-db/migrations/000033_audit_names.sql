-- The audit feed names Postern alike in every event, and has the ids of requests of sign-ins.
-- suits the running release: its calls lack the request, which is null then

create function tenancy.name_system_actor() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  new.actor_id := null;
  new.actor_name := 'Postern';
  return new;
end
$$;
create trigger names_system_actor before insert on tenancy.audit_event for each row
  when (new.actor_type = 'system') execute function tenancy.name_system_actor();

drop function tenancy.record_audit_event(uuid, timestamptz, text, text, text, text, text, text, text, text, text, text, text);
-- For triggers whose rows are of any tenant. The rows have passed the policies of their own table, so their tenant is the one
-- to record them for.
create function tenancy.record_audit_event(
  tenant uuid, at timestamptz, category text, action text, outcome text, reason text, actor_type text, actor_id text,
  actor_name text, resource_type text, resource_id text, resource_name text, source_ip text, request_id text default null)
returns void
language sql
security definer
set search_path = ''
as $$
  insert into tenancy.audit_event (
    tenant_id, at, category, action, outcome, reason, actor_type, actor_id, actor_name,
    resource_type, resource_id, resource_name, source_ip, request_id)
  values (
    tenant, record_audit_event.at, record_audit_event.category, record_audit_event.action, record_audit_event.outcome,
    record_audit_event.reason, record_audit_event.actor_type, record_audit_event.actor_id, record_audit_event.actor_name,
    record_audit_event.resource_type, record_audit_event.resource_id, record_audit_event.resource_name,
    record_audit_event.source_ip, record_audit_event.request_id)
$$;
call tenancy.give_function(
  'tenancy.record_audit_event(uuid, timestamptz, text, text, text, text, text, text, text, text, text, text, text, text)',
  'postern_tenancy', array['postern_keys_definer']::name[]);
