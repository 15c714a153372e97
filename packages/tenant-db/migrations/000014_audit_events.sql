-- What administrators and auditors ask about, of all services, in one order.
-- suits the running release: it knows none of the tables.

create table tenancy.audit_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  at timestamptz(3) not null default clock_timestamp(),
  category text not null,
  action text not null,
  outcome text not null default 'success',
  reason text,
  actor_type text not null,
  actor_id text,
  actor_name text,
  resource_type text not null,
  resource_id text,
  resource_name text,
  source_ip text,
  request_id text,
  -- Where the write-ahead log was when the transaction ended. Null while it runs, and once the event has its position.
  ended_at pg_lsn,
  -- Given after the commit. Numbers of a tenant's own.
  position bigint,
  constraint audit_event_pk primary key (tenant_id, id),
  constraint audit_event_position_unique unique (tenant_id, position),
  constraint audit_event_category_known check (category in (
    'key', 'key_policy', 'evidence', 'connector', 'webhook', 'directory', 'tenant')),
  constraint audit_event_action_form check (action ~ '^[a-z_]{1,40}\.[a-z_]{1,40}$'),
  constraint audit_event_outcome_known check (outcome in ('success', 'failure')),
  constraint audit_event_actor_type_known check (
    actor_type in ('person', 'machine', 'key', 'operator', 'system', 'policy')),
  constraint audit_event_short check (
    octet_length(concat(reason, actor_id, actor_name, resource_type, resource_id, resource_name, source_ip, request_id))
      <= 20000)
);
create index audit_event_unplaced on tenancy.audit_event (tenant_id, ended_at, id) where ended_at is not null;
create index audit_event_of_resource on tenancy.audit_event (tenant_id, resource_id, position);
create index audit_event_by_time on tenancy.audit_event (tenant_id, at);

create table tenancy.audit_head (
  tenant_id uuid not null,
  last_position bigint not null,
  constraint audit_head_pk primary key (tenant_id),
  constraint audit_head_not_negative check (last_position >= 0)
);

call tenancy.admit_definer('tenancy.audit_event', 'postern_tenancy', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('tenancy.audit_event', 'postern_keys', array['select']);
call tenancy.protect_table('tenancy.audit_event', 'postern_evidence', array['insert']);
call tenancy.protect_table('tenancy.audit_event', 'postern_sync', array['insert']);
call tenancy.admit_definer('tenancy.audit_head', 'postern_tenancy', array['select', 'insert', 'update']);

-- Whoever writes an event chooses neither its id nor its place.
do $$
declare
  writer pg_catalog.text;
begin
  foreach writer in array array['postern_evidence', 'postern_sync'] loop
    execute pg_catalog.format('revoke insert on table tenancy.audit_event from %I', writer);
    execute pg_catalog.format('grant insert (tenant_id, at, category, action, outcome, reason, actor_type, actor_id, actor_name, '
      'resource_type, resource_id, resource_name, source_ip, request_id) on table tenancy.audit_event to %I', writer);
  end loop;
end
$$;

-- The kinds of actors in the trails of the services, as the feed names them.
create function tenancy.audit_actor_type(trail_type text) returns text
language sql
immutable
parallel safe
set search_path = ''
as $$
  select case trail_type
    when 'user' then 'person'
    when 'machine' then 'machine'
    when 'api_key' then 'key'
    when 'operator' then 'operator'
    when 'policy' then 'policy'
    else 'system'
  end
$$;
grant execute on function tenancy.audit_actor_type(text) to
  postern_tenancy, postern_keys_definer, postern_evidence, postern_sync;

-- For triggers whose rows are of any tenant. The rows have passed the policies of their own table, so their tenant is the one
-- to record them for.
create function tenancy.record_audit_event(
  tenant uuid, at timestamptz, category text, action text, outcome text, reason text, actor_type text, actor_id text,
  actor_name text, resource_type text, resource_id text, resource_name text, source_ip text) returns void
language sql
security definer
set search_path = ''
as $$
  insert into tenancy.audit_event (
    tenant_id, at, category, action, outcome, reason, actor_type, actor_id, actor_name,
    resource_type, resource_id, resource_name, source_ip)
  values (
    tenant, record_audit_event.at, record_audit_event.category, record_audit_event.action, record_audit_event.outcome,
    record_audit_event.reason, record_audit_event.actor_type, record_audit_event.actor_id, record_audit_event.actor_name,
    record_audit_event.resource_type, record_audit_event.resource_id, record_audit_event.resource_name,
    record_audit_event.source_ip)
$$;
call tenancy.give_function(
  'tenancy.record_audit_event(uuid, timestamptz, text, text, text, text, text, text, text, text, text, text, text)',
  'postern_tenancy', array['postern_keys_definer']::name[]);

-- Ends an event at the commit of its transaction. Waits for nobody.
create function tenancy.end_audit_event() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  update tenancy.audit_event as e
     set ended_at = pg_catalog.pg_current_wal_insert_lsn()
   where e.tenant_id = new.tenant_id
     and e.id = new.id;
  return null;
end
$$;
call tenancy.give_function('tenancy.end_audit_event()', 'postern_tenancy', array[]::name[]);
set local role postern_tenancy;
grant execute on function tenancy.end_audit_event() to postern_owner;
set local role postern_owner;

create constraint trigger end_audit_event after insert on tenancy.audit_event
  deferrable initially deferred
  for each row execute function tenancy.end_audit_event();

-- Gives up to `most` committed events of a tenant their positions, in the order in which their transactions ended. Returns
-- whether more may be left.
-- INVARIANT: a reader that has seen a position never finds a new event at or below it. Only one transaction at a time
-- places events of a tenant, and each statement of it sees what the one before it has committed.
create function tenancy.place_audit_events(tenant uuid, most integer) returns bool
language plpgsql
set search_path = ''
as $$
declare
  last pg_catalog.int8;
  placed pg_catalog.int8;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenancy.audit_event ' || tenant::pg_catalog.text, 0));
  insert into tenancy.audit_head as h (tenant_id, last_position) values (tenant, 0) on conflict (tenant_id) do nothing;
  select h.last_position into last from tenancy.audit_head as h where h.tenant_id = tenant;

  -- audit_event_unplaced
  update tenancy.audit_event as e
     set position = last + next.number,
         ended_at = null
    from (select u.id, pg_catalog.row_number() over (order by u.ended_at, u.id) as number
            from tenancy.audit_event as u
           where u.tenant_id = tenant
             and u.ended_at is not null
           order by u.ended_at, u.id
           limit most) as next
   where e.tenant_id = tenant
     and e.id = next.id;
  get diagnostics placed = row_count;
  if placed > 0 then
    update tenancy.audit_head as h set last_position = last + placed where h.tenant_id = tenant;
  end if;
  return placed = most;
end
$$;
grant execute on function tenancy.place_audit_events(uuid, integer) to postern_tenancy;

-- Places what is committed of the tenant of the assertion. Returns whether more may be left.
create function tenancy.sequence_audit_events() returns bool
language sql
security definer
set search_path = ''
as $$
  select tenancy.place_audit_events(tenancy.tenant_id(), 1000)
$$;
call tenancy.give_function('tenancy.sequence_audit_events()', 'postern_tenancy', array['postern_keys']::name[]);

-- Deletes events that are older than 400 days, and places events that nobody has read for a minute: up to
-- `most` of each. Returns whether more may be left.
create function tenancy.maintain_audit_events(most integer) returns bool
language plpgsql
security definer
set search_path = ''
as $$
declare
  tenant pg_catalog.uuid;
  is_more pg_catalog.bool := false;
  deleted pg_catalog.int8;
begin
  for tenant in
    select h.tenant_id from tenancy.audit_head as h
    union
    select e.tenant_id from tenancy.audit_event as e where e.ended_at is not null
     order by tenant_id
  loop
    -- audit_event_unplaced
    perform from tenancy.audit_event as e
     where e.tenant_id = tenant and e.ended_at is not null and e.at < pg_catalog.clock_timestamp() - interval '1 minute'
     limit 1;
    if found then
      is_more := tenancy.place_audit_events(tenant, most) or is_more;
    end if;
    -- audit_event_by_time
    delete from tenancy.audit_event as e
     where e.tenant_id = tenant
       and e.id in (
             select o.id
               from tenancy.audit_event as o
              where o.tenant_id = tenant
                and o.position is not null
                and o.at < pg_catalog.clock_timestamp() - pg_catalog.make_interval(days => 400)
              order by o.at
              limit most);
    get diagnostics deleted = row_count;
    is_more := deleted = most or is_more;
  end loop;
  return is_more;
end
$$;
call tenancy.give_function('tenancy.maintain_audit_events(integer)', 'postern_tenancy', array['postern_keys']::name[]);

-- Audit events are also events of webhooks, by their category.
create trigger notes_key after insert on tenancy.audit_event for each row
  when (new.category = 'key') execute function tenancy.note_event('id', 'audit.key');
create trigger notes_key_policy after insert on tenancy.audit_event for each row
  when (new.category = 'key_policy') execute function tenancy.note_event('id', 'audit.key_policy');
create trigger notes_evidence after insert on tenancy.audit_event for each row
  when (new.category = 'evidence') execute function tenancy.note_event('id', 'audit.evidence');
create trigger notes_connector after insert on tenancy.audit_event for each row
  when (new.category = 'connector') execute function tenancy.note_event('id', 'audit.connector');
create trigger notes_webhook after insert on tenancy.audit_event for each row
  when (new.category = 'webhook') execute function tenancy.note_event('id', 'audit.webhook');
create trigger notes_directory after insert on tenancy.audit_event for each row
  when (new.category = 'directory') execute function tenancy.note_event('id', 'audit.directory');
create trigger notes_tenant after insert on tenancy.audit_event for each row
  when (new.category = 'tenant') execute function tenancy.note_event('id', 'audit.tenant');
