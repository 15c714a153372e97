-- How often a key was used, by day and route: what the console's page of a key shows. Counters, and no history: a row for
-- each route that a key called on a day, kept for a month.

create table keys.api_key_use (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  route text not null,
  requests bigint not null,
  constraint api_key_use_pk primary key (tenant_id, key_id, day, route),
  constraint api_key_use_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_use_route_length check (char_length(route) between 1 and 64),
  constraint api_key_use_requests_some check (requests > 0)
);
-- For dropping what is old.
create index api_key_use_by_day on keys.api_key_use (day);
comment on table keys.api_key_use is 'Requests of a key by day (UTC) and route, of the last month.';

call tenancy.protect_table('keys.api_key_use', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_use', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);

-- Adds what gateways report. The day is that of the last use, so that a report that comes late counts where it belongs.
create function keys.count_uses(uses jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.api_key_use as n (tenant_id, key_id, day, route, requests)
  select k.tenant_id, k.id,
         (least(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0), pg_catalog.clock_timestamp()) at time zone 'UTC')::pg_catalog.date,
         r.key, pg_catalog.sum(r.value::pg_catalog.int8)
    from pg_catalog.jsonb_to_recordset(uses)
         as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
    join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
   cross join lateral pg_catalog.jsonb_each_text(u.routes) as r (key, value)
   where u.routes is not null
   group by 1, 2, 3, 4
  -- In one order, so that two reports about the same keys do not lock each other out.
   order by 1, 2, 3, 4
      on conflict (tenant_id, key_id, day, route) do update set requests = n.requests + excluded.requests
$$;

-- Drops what nobody is shown any more; gives the number of rows.
create function keys.prune_uses(older_than_days integer, at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with old as (
    select u.tenant_id, u.key_id, u.day, u.route
      from keys.api_key_use as u
     where u.day < (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - older_than_days
     order by u.day
     limit at_most),
  dropped as (
    delete from keys.api_key_use as u
     using old
     where (u.tenant_id, u.key_id, u.day, u.route) = (old.tenant_id, old.key_id, old.day, old.route)
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from dropped
$$;

call tenancy.give_function('keys.count_uses(jsonb)'::regprocedure, 'postern_keys_definer', array['postern_keys']);
call tenancy.give_function('keys.prune_uses(integer, integer)'::regprocedure, 'postern_keys_definer', array['postern_keys']);
