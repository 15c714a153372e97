-- Refused attempts are counted for each address, and a key keeps the addresses that it was used from last.
-- suits the running release: it writes through the same functions, and reads what it knows.

alter table keys.api_key_denial
  add column pending_addresses jsonb not null default '{}',
  add constraint api_key_denial_pending_addresses_object check (jsonb_typeof(pending_addresses) = 'object') not valid;
comment on column keys.api_key_denial.pending_addresses is 'Attempts among the pending ones by address, of the ten addresses that most came from.';

alter table keys.api_key_address add column last_used_at timestamptz not null default pg_catalog.clock_timestamp();

create table keys.api_key_address_drop (
  tenant_id uuid not null,
  key_id uuid not null,
  dropped bigint not null,
  constraint api_key_address_drop_pk primary key (tenant_id, key_id),
  constraint api_key_address_drop_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_address_drop_some check (dropped > 0)
);
comment on table keys.api_key_address_drop is 'How often an address of a key had to make room for a newer one, or was not kept at all.';
call tenancy.protect_table('keys.api_key_address_drop', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_address_drop', 'postern_keys_definer', array['select', 'insert', 'update']);
call tenancy.admit_definer('keys.api_key_address', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);

-- The sum of two counts by address, of the ten addresses with the most.
create function keys.add_counts(counts jsonb, more jsonb) returns jsonb
language sql immutable
set search_path = ''
as $$
  select coalesce(pg_catalog.jsonb_object_agg(top.address, top.attempts), '{}')
    from (select c.key as address, pg_catalog.sum(c.value::pg_catalog.int8) as attempts
            from (select * from pg_catalog.jsonb_each_text(counts)
                  union all
                  select * from pg_catalog.jsonb_each_text(more)) as c
           group by c.key
           order by attempts desc, address
           limit 10) as top
$$;

-- One event for each address; what came from further addresses is one without.
create function keys.insert_denials(of_tenant uuid, of_key uuid, why text, total bigint, named jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
  select of_tenant, of_key, 'denied_' || why, d.address, d.detail
    from (select n.key as address, n.value::pg_catalog.int8 as attempts,
                 pg_catalog.jsonb_build_object('attempts', n.value::pg_catalog.int8) as detail
            from pg_catalog.jsonb_each_text(named) as n
          union all
          select null, rest.attempts, pg_catalog.jsonb_build_object('attempts', rest.attempts, 'other_addresses', true)
            from (select total - coalesce(pg_catalog.sum(n.value::pg_catalog.int8), 0) as attempts
                    from pg_catalog.jsonb_each_text(named) as n) as rest
           where rest.attempts > 0) as d
   order by d.address is not null, d.attempts, d.address
$$;
revoke all on function keys.add_counts(jsonb, jsonb), keys.insert_denials(uuid, uuid, text, bigint, jsonb) from public;
grant execute on function keys.add_counts(jsonb, jsonb) to postern_keys_definer;

grant create on schema keys to postern_keys_definer;
alter function keys.insert_denials(uuid, uuid, text, bigint, jsonb) owner to postern_keys_definer;
set local role postern_keys_definer;

create or replace function keys.record_denials(denials jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  denied record;
  noted record;
  moment pg_catalog.timestamptz;
  counts pg_catalog.jsonb;
begin
  for denied in
    select d.tenant_id, d.key_id, d.reason, pg_catalog.sum(d.attempts)::pg_catalog.int8 as count,
           pg_catalog.jsonb_object_agg(d.address, d.attempts) as addresses,
           (pg_catalog.array_agg(d.address order by d.at desc))[1] as address
      from (select k.tenant_id, k.id as key_id, r.reason, r.address, pg_catalog.sum(r.count) as attempts, pg_catalog.max(r.at) as at
              from pg_catalog.jsonb_to_recordset(denials)
                   as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, reason pg_catalog.text, address pg_catalog.text, at pg_catalog.int8, count pg_catalog.int8)
              join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
             group by k.tenant_id, k.id, r.reason, r.address) as d
     group by d.tenant_id, d.key_id, d.reason
     order by d.tenant_id, d.key_id, d.reason
  loop
    insert into keys.api_key_denial (tenant_id, key_id, reason, address)
    values (denied.tenant_id, denied.key_id, denied.reason, denied.address)
        on conflict do nothing;
    select n.noted_at, n.pending, n.pending_addresses
      into strict noted
      from keys.api_key_denial as n
     where n.tenant_id = denied.tenant_id
       and n.key_id = denied.key_id
       and n.reason = denied.reason
       for update;
    moment := pg_catalog.clock_timestamp();
    counts := keys.add_counts(noted.pending_addresses, denied.addresses);
    if noted.noted_at <= moment - interval '1 minute' then
      perform keys.insert_denials(denied.tenant_id, denied.key_id, denied.reason, noted.pending + denied.count, counts);
      update keys.api_key_denial as n
         set noted_at = moment, pending = 0, pending_addresses = '{}', address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    else
      update keys.api_key_denial as n
         set pending = n.pending + denied.count, pending_addresses = counts, address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    end if;
  end loop;
end
$$;

create or replace function keys.note_pending_denials(at_most integer) returns integer
language plpgsql
security definer
set search_path = ''
as $$
declare
  due record;
  noted integer := 0;
begin
  for due in
    select n.tenant_id, n.key_id, n.reason, n.pending, n.pending_addresses
      from keys.api_key_denial as n
     where n.pending > 0
       and n.noted_at <= pg_catalog.clock_timestamp() - interval '1 minute'
     order by n.tenant_id, n.key_id, n.reason
     limit at_most
       for update skip locked
  loop
    perform keys.insert_denials(due.tenant_id, due.key_id, due.reason, due.pending, due.pending_addresses);
    update keys.api_key_denial as n
       set noted_at = pg_catalog.clock_timestamp(), pending = 0, pending_addresses = '{}'
     where n.tenant_id = due.tenant_id and n.key_id = due.key_id and n.reason = due.reason;
    noted := noted + 1;
  end loop;
  return noted;
end
$$;

create or replace function keys.record_uses(uses jsonb)
 returns void
language plpgsql
security definer
set search_path = ''
as $function$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select u."tenantId", u."keyId" from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_used_at = seen.at
    from (select u."tenantId" as tenant_id, u."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8)
           group by u."tenantId", u."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_used_at is null or k.last_used_at < seen.at);

  with seen as (
    select k.tenant_id, k.id as key_id, u.address,
           least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)), pg_catalog.clock_timestamp()) as at
      from pg_catalog.jsonb_to_recordset(uses)
           as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text, "lastUsedAt" pg_catalog.int8)
      join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
     group by k.tenant_id, k.id, u.address),
  known as (
    update keys.api_key_address as a
       set last_used_at = greatest(a.last_used_at, seen.at)
      from seen
     where a.tenant_id = seen.tenant_id and a.key_id = seen.key_id and a.address = seen.address
    returning a.tenant_id, a.key_id, a.address),
  before as (
    select s.tenant_id, s.key_id,
           (select pg_catalog.count(*) from keys.api_key_address as a where a.tenant_id = s.tenant_id and a.key_id = s.key_id) as held
      from (select distinct seen.tenant_id, seen.key_id from seen) as s),
  fresh as (
    select seen.tenant_id, seen.key_id, seen.address, seen.at, before.held,
           pg_catalog.row_number() over (partition by seen.tenant_id, seen.key_id order by seen.at desc, seen.address) as place
      from seen
      join before on before.tenant_id = seen.tenant_id and before.key_id = seen.key_id
     where not exists (
             select from known
              where known.tenant_id = seen.tenant_id and known.key_id = seen.key_id and known.address = seen.address)),
  -- The newest hundred stay; what a report has beyond them is counted and not kept.
  kept as (
    insert into keys.api_key_address (tenant_id, key_id, address, last_used_at)
    select fresh.tenant_id, fresh.key_id, fresh.address, fresh.at
      from fresh
     where fresh.place <= 100
        on conflict do nothing
    returning tenant_id, key_id, address),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, address)
    select kept.tenant_id, kept.key_id, 'used_from_new_address', kept.address
      from kept
      join fresh on fresh.tenant_id = kept.tenant_id and fresh.key_id = kept.key_id and fresh.address = kept.address
     where fresh.held + fresh.place <= 100 or fresh.place <= 5)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select fresh.tenant_id, fresh.key_id, pg_catalog.count(*)
    from fresh
   where fresh.place > 100
   group by fresh.tenant_id, fresh.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;

  -- A statement of its own: it sees what the one before has added.
  with placed as (
    select a.tenant_id, a.key_id, a.address,
           pg_catalog.row_number() over (
             partition by a.tenant_id, a.key_id order by a.last_used_at desc, a.first_used_at desc, a.address) as place
      from keys.api_key_address as a
     where (a.tenant_id, a.key_id) in (
             select u."tenantId", u."keyId"
               from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))),
  dropped as (
    delete from keys.api_key_address as a
     using placed
     where placed.place > 100
       and a.tenant_id = placed.tenant_id and a.key_id = placed.key_id and a.address = placed.address
    returning a.tenant_id, a.key_id)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select dropped.tenant_id, dropped.key_id, pg_catalog.count(*)
    from dropped
   group by dropped.tenant_id, dropped.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;
end
$function$;

set local role postern_owner;
revoke create on schema keys from postern_keys_definer;
