-- Where a key was used, and what was refused, of the last month.
-- suits the running release: it neither reports refusals nor reads them
-- holds up writes: a new index of a table that holds one row for each key and address

create table keys.api_key_address_use (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  address text not null,
  requests bigint not null,
  constraint api_key_address_use_pk primary key (tenant_id, key_id, day, address),
  constraint api_key_address_use_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_address_use_address_length check (char_length(address) <= 64),
  constraint api_key_address_use_requests_some check (requests > 0)
);
comment on table keys.api_key_address_use is 'Accepted requests of a key by day (UTC) and address, of the last month. At most 100 addresses a day.';
comment on column keys.api_key_address_use.address is 'Empty for further addresses.';
create index api_key_address_use_by_day on keys.api_key_address_use (day);

create table keys.api_key_refusal_count (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  code text not null,
  route text not null,
  address text not null,
  refusals bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  constraint api_key_refusal_count_pk primary key (tenant_id, key_id, day, code, route, address),
  constraint api_key_refusal_count_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_refusal_count_code_length check (char_length(code) between 1 and 64),
  constraint api_key_refusal_count_route_length check (char_length(route) <= 64),
  constraint api_key_refusal_count_address_length check (char_length(address) <= 64),
  constraint api_key_refusal_count_refusals_some check (refusals > 0)
);
comment on table keys.api_key_refusal_count is
  'Refused requests of a key by day (UTC), problem code, route and address, of the last month. At most 100 rows with an address a day.';
comment on column keys.api_key_refusal_count.route is 'Empty if no route matched, and for further addresses.';
comment on column keys.api_key_refusal_count.address is 'Empty for further addresses.';
create index api_key_refusal_count_by_day on keys.api_key_refusal_count (day);

create table keys.api_key_refusal (
  tenant_id uuid not null,
  key_id uuid not null,
  at timestamptz not null,
  request_id text not null,
  method text not null,
  route text,
  address text not null,
  code text not null,
  constraint api_key_refusal_pk primary key (tenant_id, key_id, at, request_id),
  constraint api_key_refusal_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_refusal_request_id_length check (char_length(request_id) between 1 and 128),
  constraint api_key_refusal_method_length check (char_length(method) between 1 and 32),
  constraint api_key_refusal_route_length check (char_length(route) between 1 and 64),
  constraint api_key_refusal_address_length check (char_length(address) between 1 and 64),
  constraint api_key_refusal_code_length check (char_length(code) between 1 and 64)
);
comment on table keys.api_key_refusal is 'The last 100 refused requests of a key, of the last month. Without the path, which may contain a secret.';
create index api_key_refusal_by_time on keys.api_key_refusal (at);

call tenancy.protect_table('keys.api_key_address_use', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_address_use', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('keys.api_key_refusal_count', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_refusal_count', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('keys.api_key_refusal', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_refusal', 'postern_keys_definer', array['select', 'insert', 'delete']);

-- Adds the accepted requests of a report by address. Called once `keys.record_uses` has locked the keys.
create function keys.count_addresses(uses jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  with seen as (
    select k.tenant_id, k.id as key_id,
           (least(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0), pg_catalog.clock_timestamp()) at time zone 'UTC')::pg_catalog.date as day,
           u.address, pg_catalog.sum(r.requests) as requests
      from pg_catalog.jsonb_to_recordset(uses)
           as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
      join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
     cross join lateral (
             select pg_catalog.sum(r.value::pg_catalog.int8) as requests from pg_catalog.jsonb_each_text(u.routes) as r) as r
     where r.requests > 0
     group by 1, 2, 3, 4),
  named as (
    select seen.*, n.address is not null as is_known,
           pg_catalog.row_number() over (
             partition by seen.tenant_id, seen.key_id, seen.day, n.address is not null
                 order by seen.requests desc, seen.address) as place
      from seen
      left join keys.api_key_address_use as n
        on n.tenant_id = seen.tenant_id and n.key_id = seen.key_id and n.day = seen.day and n.address = seen.address),
  kept as (
    select n.tenant_id, n.key_id, n.day, n.requests,
           case when n.is_known or n.place + (
                       select pg_catalog.count(*)
                         from keys.api_key_address_use as a
                        where a.tenant_id = n.tenant_id and a.key_id = n.key_id and a.day = n.day and a.address <> '') <= 100
                then n.address else '' end as address
      from named as n)
  insert into keys.api_key_address_use as n (tenant_id, key_id, day, address, requests)
  select k.tenant_id, k.key_id, k.day, k.address, pg_catalog.sum(k.requests)
    from kept as k
   group by 1, 2, 3, 4
   order by 1, 2, 3, 4
      on conflict (tenant_id, key_id, day, address) do update set requests = n.requests + excluded.requests
$$;
call tenancy.give_function('keys.count_addresses(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Adds the refusals of a report and keeps the last 100 of each key.
create function keys.count_refusals(refusals jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  moment constant pg_catalog.timestamptz := pg_catalog.clock_timestamp();
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select r."tenantId", r."keyId" from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  with seen as (
    select k.tenant_id, k.id as key_id,
           (least(pg_catalog.to_timestamp(c."lastAt" / 1000.0), moment) at time zone 'UTC')::pg_catalog.date as day,
           c.code, coalesce(c.route, '') as route, coalesce(c.address, '') as address, pg_catalog.sum(c.count) as refusals,
           pg_catalog.min(least(pg_catalog.to_timestamp(c."firstAt" / 1000.0), moment)) as first_at,
           pg_catalog.max(least(pg_catalog.to_timestamp(c."lastAt" / 1000.0), moment)) as last_at
      from pg_catalog.jsonb_to_recordset(refusals)
           as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, counts pg_catalog.jsonb)
      join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
     cross join lateral pg_catalog.jsonb_to_recordset(r.counts)
           as c (code pg_catalog.text, route pg_catalog.text, address pg_catalog.text, count pg_catalog.int8,
                 "firstAt" pg_catalog.int8, "lastAt" pg_catalog.int8)
     group by 1, 2, 3, 4, 5, 6),
  placed as (
    select seen.*, n.day is not null or seen.address = '' as is_kept,
           pg_catalog.row_number() over (
             partition by seen.tenant_id, seen.key_id, seen.day, n.day is not null or seen.address = ''
                 order by seen.refusals desc, seen.code, seen.route, seen.address) as place
      from seen
      left join keys.api_key_refusal_count as n
        on (n.tenant_id, n.key_id, n.day, n.code, n.route, n.address)
             = (seen.tenant_id, seen.key_id, seen.day, seen.code, seen.route, seen.address)),
  kept as (
    select p.tenant_id, p.key_id, p.day, p.code, p.route, p.address, p.refusals, p.first_at, p.last_at,
           p.is_kept or p.place + (
             select pg_catalog.count(*)
               from keys.api_key_refusal_count as c
              where c.tenant_id = p.tenant_id and c.key_id = p.key_id and c.day = p.day and c.address <> '') <= 100 as is_named
      from placed as p)
  insert into keys.api_key_refusal_count as n (tenant_id, key_id, day, code, route, address, refusals, first_at, last_at)
  select k.tenant_id, k.key_id, k.day, k.code,
         case when k.is_named then k.route else '' end, case when k.is_named then k.address else '' end,
         pg_catalog.sum(k.refusals), pg_catalog.min(k.first_at), pg_catalog.max(k.last_at)
    from kept as k
   group by 1, 2, 3, 4, 5, 6
   order by 1, 2, 3, 4, 5, 6
      on conflict (tenant_id, key_id, day, code, route, address) do update
     set refusals = n.refusals + excluded.refusals, first_at = least(n.first_at, excluded.first_at),
         last_at = greatest(n.last_at, excluded.last_at);

  insert into keys.api_key_refusal (tenant_id, key_id, at, request_id, method, route, address, code)
  select k.tenant_id, k.id, least(pg_catalog.to_timestamp(c.at / 1000.0), pg_catalog.date_trunc('milliseconds', moment)),
         c."requestId", c.method, c.route, c.address, c.code
    from pg_catalog.jsonb_to_recordset(refusals)
         as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, recent pg_catalog.jsonb)
    join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
   cross join lateral pg_catalog.jsonb_to_recordset(r.recent)
         as c (at pg_catalog.int8, "requestId" pg_catalog.text, method pg_catalog.text, route pg_catalog.text,
               address pg_catalog.text, code pg_catalog.text)
      on conflict do nothing;

  delete from keys.api_key_refusal as r
   using (select o.tenant_id, o.key_id, o.at, o.request_id,
                 pg_catalog.row_number() over (partition by o.tenant_id, o.key_id order by o.at desc, o.request_id desc) as place
            from keys.api_key_refusal as o
           where (o.tenant_id, o.key_id) in (
                   select n."tenantId", n."keyId"
                     from pg_catalog.jsonb_to_recordset(refusals) as n ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))) as old
   where old.place > 100
     and (r.tenant_id, r.key_id, r.at, r.request_id) = (old.tenant_id, old.key_id, old.at, old.request_id);
end
$$;
call tenancy.give_function('keys.count_refusals(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Drops up to that many rows of each table that nobody is shown any more; returns the number of rows.
create function keys.prune_refusals(older_than_days integer, at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with today as (
    select (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - older_than_days as first_day),
  addresses as (
    delete from keys.api_key_address_use as u
     using (select o.tenant_id, o.key_id, o.day, o.address
              from keys.api_key_address_use as o
             where o.day < (select first_day from today)
             order by o.day
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.day, u.address) = (old.tenant_id, old.key_id, old.day, old.address)
    returning 1),
  counts as (
    delete from keys.api_key_refusal_count as u
     using (select o.tenant_id, o.key_id, o.day, o.code, o.route, o.address
              from keys.api_key_refusal_count as o
             where o.day < (select first_day from today)
             order by o.day
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.day, u.code, u.route, u.address)
             = (old.tenant_id, old.key_id, old.day, old.code, old.route, old.address)
    returning 1),
  refusals as (
    delete from keys.api_key_refusal as u
     using (select o.tenant_id, o.key_id, o.at, o.request_id
              from keys.api_key_refusal as o
             where o.at < (select first_day from today)::pg_catalog.timestamp at time zone 'UTC'
             order by o.at
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.at, u.request_id) = (old.tenant_id, old.key_id, old.at, old.request_id)
    returning 1)
  select ((select pg_catalog.count(*) from addresses) + (select pg_catalog.count(*) from counts)
            + (select pg_catalog.count(*) from refusals))::pg_catalog.int4
$$;
call tenancy.give_function('keys.prune_refusals(integer, integer)', 'postern_keys_definer', array['postern_keys']);
