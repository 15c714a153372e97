-- Sign-ins to the console, as gateways report them, are in the audit feed.
-- suits the running release: it knows none of this

create table keys.sign_in (
  tenant_id uuid not null,
  person_id text not null,
  reason text not null,
  minute timestamptz not null,
  address text not null,
  constraint sign_in_pk primary key (tenant_id, person_id, reason, minute, address),
  constraint sign_in_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint sign_in_person_id_length check (char_length(person_id) between 1 and 255),
  constraint sign_in_reason_length check (char_length(reason) <= 64),
  constraint sign_in_address_length check (char_length(address) between 1 and 64)
);
comment on table keys.sign_in is 'What the audit feed has of the last two days, so that a flood of sign-ins does not fill it.';
comment on column keys.sign_in.reason is 'Why it failed; empty if it succeeded.';
create index sign_in_by_minute on keys.sign_in (minute);
call tenancy.admit_definer('keys.sign_in', 'postern_keys_definer', array['select', 'insert', 'delete']);

-- Adds at most one event for each person, outcome, address and minute, and a hundred for each person, outcome and day (UTC).
create function keys.record_sign_ins(sign_ins jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  with given as (
    select distinct on (t.tenant_id, s.id, s.reason, m.minute, s.address)
           t.tenant_id, t.name as tenant_name, s.id, s.name, coalesce(s.reason, '') as reason, s.address, m.at, m.minute,
           pg_catalog.date_trunc('day', m.minute, 'UTC') as day
      from pg_catalog.jsonb_to_recordset(sign_ins)
           as s ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, reason pg_catalog.text,
                 address pg_catalog.text, at pg_catalog.int8)
      join keys.tenant as t on t.tenant_id = s."tenantId"
     cross join lateral (select least(pg_catalog.to_timestamp(s.at / 1000.0), pg_catalog.clock_timestamp()) as at) as told
     cross join lateral (select told.at, pg_catalog.date_trunc('minute', told.at, 'UTC') as minute) as m
     order by t.tenant_id, s.id, s.reason, m.minute, s.address, m.at),
  numbered as (
    select g.*,
           pg_catalog.row_number() over (partition by g.tenant_id, g.id, g.reason, g.day order by g.minute, g.address)
             + (select pg_catalog.count(*)
                  from keys.sign_in as n
                 where n.tenant_id = g.tenant_id and n.person_id = g.id and n.reason = g.reason
                   and n.minute >= g.day and n.minute < g.day + interval '24 hours') as number
      from given as g),
  added as (
    insert into keys.sign_in (tenant_id, person_id, reason, minute, address)
    select n.tenant_id, n.id, n.reason, n.minute, n.address
      from numbered as n
     where n.number <= 100
     order by 1, 2, 3, 4, 5
        on conflict do nothing
    returning tenant_id, person_id, reason, minute, address)
  select tenancy.record_audit_event(
           g.tenant_id, g.at, 'sign_in', case when g.reason = '' then 'sign_in.succeeded' else 'sign_in.failed' end,
           case when g.reason = '' then 'success' else 'failure' end, nullif(g.reason, ''),
           'person', g.id, g.name, 'tenant', g.tenant_id::pg_catalog.text, g.tenant_name, g.address)
    from given as g
    join added as a on (a.tenant_id, a.person_id, a.reason, a.minute, a.address)
                         = (g.tenant_id, g.id, g.reason, g.minute, g.address)
$$;
call tenancy.give_function('keys.record_sign_ins(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Forgets up to that many sign-ins of the days before yesterday; returns their number.
create function keys.prune_sign_ins(at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with pruned as (
    delete from keys.sign_in as s
     using (select o.tenant_id, o.person_id, o.reason, o.minute, o.address
              from keys.sign_in as o
             where o.minute < pg_catalog.clock_timestamp() - interval '48 hours'
             order by o.minute
             limit at_most) as old
     where (s.tenant_id, s.person_id, s.reason, s.minute, s.address)
             = (old.tenant_id, old.person_id, old.reason, old.minute, old.address)
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from pruned
$$;
call tenancy.give_function('keys.prune_sign_ins(integer)', 'postern_keys_definer', array['postern_keys']);
