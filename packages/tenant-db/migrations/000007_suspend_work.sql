-- Which tenants the platform has suspended, for workers, whom no gateway stands before.

create table tenancy.suspended_tenant (
  tenant_id uuid not null,
  since timestamptz not null default now(),
  constraint suspended_tenant_pk primary key (tenant_id)
);
call tenancy.admit_definer('tenancy.suspended_tenant', 'postern_tenancy', array['select', 'insert', 'delete']);

-- Notes that a tenant is suspended, or is no more, in the operator's transaction that makes it so.
create function tenancy.note_suspension(tenant uuid, suspended boolean) returns void
language plpgsql
volatile
security definer
set search_path = ''
as $$
begin
  perform tenancy.assert_operator();
  if suspended then
    insert into tenancy.suspended_tenant (tenant_id) values (tenant) on conflict do nothing;
  else
    delete from tenancy.suspended_tenant as s where s.tenant_id = tenant;
  end if;
end
$$;

-- Whether the tenant that has asked for the work is suspended. Tells only who holds the work.
create function tenancy.is_work_suspended(work uuid, worker uuid) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select
      from tenancy.granted_work as g
      join tenancy.suspended_tenant as s on s.tenant_id = g.tenant_id
     where g.work_id = work and g.holder = worker)
$$;

call tenancy.give_function('tenancy.note_suspension(uuid, boolean)', 'postern_tenancy', array['postern_keys']);
call tenancy.give_function('tenancy.is_work_suspended(uuid, uuid)', 'postern_tenancy', array['postern_sync']);
