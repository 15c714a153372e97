-- Work that goes on after the request that asked for it: how a worker comes to an assertion of the tenant without ever
-- holding a secret or a key.

-- What a tenant has asked to be done in its name. Only a transaction of the tenant itself can put a row here, so that
-- no service can act for a tenant that has not asked for it.
create table tenancy.granted_work (
  tenant_id uuid not null,
  work_id uuid not null,
  -- The worker that carries it out now: a number of its own, new for every attempt.
  holder uuid,
  granted_at timestamptz not null default now(),
  constraint granted_work_pk primary key (tenant_id, work_id),
  -- Random, hence nobody can ask about one that he does not know.
  constraint granted_work_id_unique unique (work_id)
);

call tenancy.protect_table('tenancy.granted_work', 'postern_sync', array['select', 'insert', 'delete']);
call tenancy.admit_definer('tenancy.granted_work', 'postern_tenancy', array['select', 'update']);
grant select (created_at) on tenancy.assertion_secret to postern_tenancy;

-- Makes a worker the holder. Whoever held the work before holds it no longer: the queue gives work out again only when
-- it takes the worker before for dead. False where there is no such work.
create function tenancy.hold_work(work uuid, worker uuid) returns boolean
language plpgsql
volatile
security definer
set search_path = ''
as $$
begin
  update tenancy.granted_work as g
     set holder = worker
   where g.work_id = work;
  return found;
end
$$;

-- An assertion of the tenant that has asked for the work, valid for a minute, for the worker that holds it. Raises 28000
-- for everybody else.
create function tenancy.issue_for_run(work uuid, worker uuid) returns text
language plpgsql
volatile
security definer
set search_path = ''
as $$
declare
  tenant pg_catalog.uuid;
  secret record;
  said pg_catalog.text;
begin
  select g.tenant_id into tenant from tenancy.granted_work as g where g.work_id = work and g.holder = worker;
  select s.key_id, s.inner_pad, s.outer_pad
    into secret
    from tenancy.assertion_secret as s
   where s.not_after is null
   order by s.created_at desc, s.key_id
   limit 1;
  if tenant is null or secret.key_id is null then
    raise exception using errcode = '28000', message = 'tenant assertion refused';
  end if;
  said := pg_catalog.concat_ws('.', 'v1', secret.key_id, tenant,
    (pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp())) + 60)::pg_catalog.int8);
  return said || '.' || pg_catalog.translate(pg_catalog.encode(
    pg_catalog.sha256(secret.outer_pad || pg_catalog.sha256(secret.inner_pad || pg_catalog.convert_to(said, 'UTF8'))),
    'base64'), '+/=', '-_');
end
$$;

call tenancy.give_function('tenancy.hold_work(uuid, uuid)', 'postern_tenancy', array['postern_sync']);
call tenancy.give_function('tenancy.issue_for_run(uuid, uuid)', 'postern_tenancy', array['postern_sync']);
