-- What a tenant demands of its keys is the administrators' to set: the longest life, and the networks that a key must be
-- limited to. Who has signed in of the tenant's people, and from where its keys were used, is theirs to see.

alter table keys.tenant
  add column required_addresses cidr[] not null default '{}',
  add column policy_version integer not null default 1,
  add constraint tenant_required_addresses_few check (cardinality(required_addresses) <= 100);
comment on column keys.tenant.required_addresses is
  'Networks. Where there is one, a key must name addresses, and each must lie in one of them.';
comment on column keys.tenant.policy_version is 'Grows with every change of max_key_days or required_addresses.';

create table keys.key_policy_event (
  tenant_id uuid not null,
  version integer not null,
  at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  max_key_days integer not null,
  required_addresses cidr[] not null,
  constraint key_policy_event_pk primary key (tenant_id, version),
  constraint key_policy_event_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint key_policy_event_actor_length check (
    char_length(actor_type) <= 100 and char_length(actor_id) <= 1000 and char_length(actor_label) <= 1000)
);
comment on table keys.key_policy_event is 'Who set the policy to what: only grows. A change and its event are one transaction.';
create trigger key_policy_event_only_grows before update or delete on keys.key_policy_event
  for each row execute function tenancy.refuse_change();
create trigger key_policy_event_never_emptied before truncate on keys.key_policy_event
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('keys.key_policy_event', 'postern_keys', array['select', 'insert']);
call tenancy.protect_table('keys.tenant', 'postern_keys', array['select', 'update']);
revoke update on keys.tenant from postern_keys;
grant update (max_key_days, required_addresses) on keys.tenant to postern_keys;
call tenancy.protect_table('keys.api_key_address', 'postern_keys', array['select']);

create or replace function keys.guard_tenant() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case when new.status <> old.status then 1 else 0 end;
  new.policy_version := old.policy_version + case
    when (new.max_key_days, new.required_addresses) is distinct from (old.max_key_days, old.required_addresses) then 1 else 0 end;
  return new;
end
$$;

-- The policy's part of what guards a key, apart from the rest: it asks for another table, and only when a key is made or
-- its addresses change. A key that is older than the policy works on as it is.
create function keys.guard_key_policy() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  required cidr[];
begin
  select t.required_addresses into required from keys.tenant as t where t.tenant_id = new.tenant_id;
  if found and not keys.narrows_addresses(new.allowed_addresses, required) then
    raise exception using errcode = '23514', constraint = 'api_key_within_required_addresses',
      message = 'the key is not limited to the networks that its tenant requires';
  end if;
  return new;
end
$$;
create trigger api_key_made_by_policy before insert on keys.api_key
  for each row execute function keys.guard_key_policy();
create trigger api_key_changed_by_policy before update of allowed_addresses on keys.api_key
  for each row when (new.allowed_addresses is distinct from old.allowed_addresses) execute function keys.guard_key_policy();
grant execute on function keys.guard_key_policy() to postern_keys, postern_keys_definer;

-- People of the tenant as they last signed in. Gateways report them; nobody is added or changed here.
create table keys.member (
  tenant_id uuid not null,
  id text not null,
  name text not null,
  roles text[] not null,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  constraint member_pk primary key (tenant_id, id),
  constraint member_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint member_id_length check (char_length(id) between 1 and 255),
  constraint member_name_length check (char_length(name) between 1 and 255),
  constraint member_roles_known check (roles <@ array['viewer', 'auditor', 'admin'])
);
comment on table keys.member is 'Who has signed in, with the name and roles that the identity provider gave them last.';
call tenancy.protect_table('keys.member', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.member', 'postern_keys_definer', array['select', 'insert', 'update']);

-- Notes what gateways report of people. A report that is late takes nothing back, nor does one of a tenant that is gone.
create function keys.record_people(people jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.member as m (tenant_id, id, name, roles, first_seen_at, last_seen_at)
  select distinct on (t.tenant_id, p.id)
         t.tenant_id, p.id, p.name, p.roles, seen.at, seen.at
    from pg_catalog.jsonb_to_recordset(people)
         as p ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, roles pg_catalog.text[], "lastSeenAt" pg_catalog.int8)
    join keys.tenant as t on t.tenant_id = p."tenantId"
   cross join lateral (
           select least(pg_catalog.to_timestamp(p."lastSeenAt" / 1000.0),
                        pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at) as seen
  -- In one order, so that two reports about the same people do not lock each other out.
   order by t.tenant_id, p.id, seen.at desc
      on conflict (tenant_id, id) do update
     set name = excluded.name, roles = excluded.roles, last_seen_at = excluded.last_seen_at
   where m.last_seen_at < excluded.last_seen_at
$$;
call tenancy.give_function('keys.record_people(jsonb)'::regprocedure, 'postern_keys_definer', array['postern_keys']);
