-- The change feed also has events, such as the revocation of a key, for tenants that send them to webhooks.
-- suits the running release: the new column may be null, and the feed of its API leaves unknown kinds out.

alter table tenancy.change add column event text;

-- Tenants that have an endpoint. Nothing is noted for any other tenant.
create table tenancy.event_reader (
  tenant_id uuid not null,
  since timestamptz not null default now(),
  constraint event_reader_pk primary key (tenant_id)
);
call tenancy.protect_table('tenancy.event_reader', 'postern_sync', array['select', 'insert', 'delete']);
call tenancy.admit_definer('tenancy.event_reader', 'postern_tenancy', array['select']);

-- For schedules of all tenants, such as that of keys that expire. `since`: nothing before it is an event.
create function tenancy.list_event_readers() returns table (tenant_id uuid, since timestamptz)
language sql
stable
security definer
set search_path = ''
as $$
  select r.tenant_id, r.since from tenancy.event_reader as r
$$;
call tenancy.give_function('tenancy.list_event_readers()', 'postern_tenancy',
  array['postern_keys_definer', 'postern_findings_definer']::name[]);
grant usage on schema tenancy to postern_findings_definer;

-- The sync service delivers events; it learns kinds, ids and versions, and nothing of what is in a resource.
call tenancy.protect_table('tenancy.change_head', 'postern_sync', array['select']);
call tenancy.protect_table('tenancy.change_batch', 'postern_sync', array['select']);
call tenancy.protect_table('tenancy.change', 'postern_sync', array['select']);

set local role postern_tenancy;
grant execute on function tenancy.sequence_changes() to postern_sync;
set local role postern_owner;

-- Notes events of a new or changed row. Arguments: the column with the id of the resource, and the names of the events.
create function tenancy.note_event() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  resource constant pg_catalog.uuid := (pg_catalog.to_jsonb(new) operator(pg_catalog.->>) tg_argv[0])::pg_catalog.uuid;
  batch pg_catalog.uuid;
  noted pg_catalog.int4;
begin
  perform from tenancy.event_reader as r where r.tenant_id = new.tenant_id;
  if not found then
    return null;
  end if;
  -- change_batch_open
  select b.id
    into batch
    from tenancy.change_batch as b
   where b.tenant_id = new.tenant_id
     and b.made_by = pg_catalog.pg_current_xact_id();
  if not found then
    insert into tenancy.change_batch (tenant_id, made_by)
    values (new.tenant_id, pg_catalog.pg_current_xact_id())
    returning id into batch;
  end if;
  for n in 1 .. tg_nargs - 1 loop
    -- change_pk
    select coalesce(max(c.ordinal), 0) + 1
      into noted
      from tenancy.change as c
     where c.tenant_id = new.tenant_id
       and c.batch_id = batch;
    insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, event)
    values (new.tenant_id, batch, noted, 'event', resource, 'updated', tg_argv[n]);
  end loop;
  return null;
end
$$;
call tenancy.give_function('tenancy.note_event()', 'postern_tenancy', array[]::name[]);
-- The owner creates triggers with it.
set local role postern_tenancy;
grant execute on function tenancy.note_event() to postern_owner;
set local role postern_owner;
