-- API keys, their audit trail, the tenants they belong to, and the log from which gateways learn that a key or a tenant
-- has changed. services/keys/README.md lists the invariants; revocation/README.md explains the log and the leases.

create schema keys;

-- Whether granted scopes cover one: itself, the wildcard of its action, or all. As packages/api-key does; a test compares.
create function keys.covers_scope(granted text[], scope text) returns boolean
language sql
immutable
set search_path = ''
as $$
  select scope = any (granted)
      or '*' = any (granted)
      or (scope <> '*' and pg_catalog.split_part(scope, ':', 1) || ':*' = any (granted))
$$;
grant execute on function keys.covers_scope(text[], text) to postern_keys, postern_keys_definer;

-- Whether every address of the new list is in the old one. An empty list is no restriction.
create function keys.narrows_addresses(new_list cidr[], old_list cidr[]) returns boolean
language sql
immutable
set search_path = ''
as $$
  select pg_catalog.cardinality(old_list) = 0
      or (pg_catalog.cardinality(new_list) > 0 and not exists (
            select
              from pg_catalog.unnest(new_list) as n (range)
             where not exists (
                     select
                       from pg_catalog.unnest(old_list) as o (range)
                      where n.range operator(pg_catalog.<<=) o.range)))
$$;
grant execute on function keys.narrows_addresses(cidr[], cidr[]) to postern_keys, postern_keys_definer;

-- Tenants. The column is called tenant_id as everywhere, so that the one tenant policy holds here too: a tenant sees its
-- own row and no other. Only the operator's functions below make or change one.
create table keys.tenant (
  tenant_id uuid not null default uuidv7(),
  slug text not null,
  name text not null,
  status text not null default 'active',
  version integer not null default 1,
  max_key_days integer not null default 1825,
  key_limit integer not null default 6000,
  tenant_limit integer not null default 60000,
  created_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  required_addresses cidr[] not null default '{}',
  policy_version integer not null default 1,
  constraint tenant_pk primary key (tenant_id),
  constraint tenant_slug_unique unique (slug),
  constraint tenant_id_not_nil check (tenant_id <> '00000000-0000-0000-0000-000000000000'),
  constraint tenant_slug_form check (slug ~ '^[a-z][a-z0-9-]{1,62}$'),
  constraint tenant_name_length check (char_length(name) between 1 and 200),
  constraint tenant_status_known check (status in ('active', 'suspended')),
  constraint tenant_max_key_days_range check (max_key_days between 1 and 36500),
  constraint tenant_key_limit_positive check (key_limit >= 1),
  constraint tenant_tenant_limit_positive check (tenant_limit >= 1),
  constraint tenant_required_addresses_few check (cardinality(required_addresses) <= 100)
);
comment on column keys.tenant.version is
  'Grows with every change of status, name or limits: what a gateway has cached of a lower version is void.';
comment on column keys.tenant.max_key_days is 'How many days a key of this tenant may live at most.';
comment on column keys.tenant.key_limit is 'Requests a minute that one key may make over all gateways.';
comment on column keys.tenant.tenant_limit is 'Requests a minute that all keys of the tenant together may make over all gateways.';
comment on column keys.tenant.required_addresses is
  'Networks. Where there is one, a key must name addresses, and each must lie in one of them.';
comment on column keys.tenant.policy_version is 'Grows with every change of max_key_days or required_addresses.';

create function keys.guard_tenant() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case
    when (new.status, new.name, new.key_limit, new.tenant_limit)
      is distinct from (old.status, old.name, old.key_limit, old.tenant_limit) then 1 else 0 end;
  new.policy_version := old.policy_version + case
    when (new.max_key_days, new.required_addresses) is distinct from (old.max_key_days, old.required_addresses) then 1 else 0 end;
  return new;
end
$$;
grant execute on function keys.guard_tenant() to postern_keys, postern_keys_definer;

create trigger tenant_guard before update on keys.tenant
  for each row execute function keys.guard_tenant();
create trigger tenant_never_deleted before delete on keys.tenant
  for each row execute function tenancy.refuse_change();
create trigger tenant_never_emptied before truncate on keys.tenant
  for each statement execute function tenancy.refuse_change();

-- Puts every change of a key or a tenant that gateways cache into the log, so that no code can forget to. The triggers are
-- deferred: they run when everything else in the transaction is done, so the counter is locked last and for the commit only.
create function keys.log_change() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  next bigint;
  before text;
  told text;
begin
  -- A revocation that was answered must survive a crash, also where somebody has relaxed the server for speed.
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  select c.seq + 1, c.mark into strict next, before from keys.revocation_seq as c where c.single for update;
  if tg_table_name = 'api_key' then
    insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked, mark_before)
    values (next, 'key', new.tenant_id, new.hash, new.version, new.revoked_at is not null, before);
    told := pg_catalog.concat_ws(' ', 'key', pg_catalog.encode(new.hash, 'hex'), new.version,
              case when new.revoked_at is null then 0 else 1 end);
  else
    insert into keys.revocation (seq, kind, tenant_id, version, revoked, mark_before)
    values (next, 'tenant', new.tenant_id, new.version, new.status = 'suspended', before);
    told := pg_catalog.concat_ws(' ', 'tenant', new.tenant_id, new.version, 0);
  end if;
  update keys.revocation_seq as c
     set seq = next,
         mark = pg_catalog.encode(
           pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat_ws(' ', before, next, told), 'UTF8')), 'hex')
   where c.single;
  return null;
end
$$;

create constraint trigger tenant_change_is_logged after update on keys.tenant
  deferrable initially deferred
  for each row when (new.version <> old.version) execute function keys.log_change();

-- By a trigger, so that no function can forget it. Who acts, the function has told the transaction.
create function keys.note_tenant_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  insert into keys.tenant_event (tenant_id, type, operator, name, key_limit, tenant_limit)
  values (
    new.tenant_id,
    case
      when tg_op = 'INSERT' then 'created'
      when new.status = old.status then 'changed'
      when new.status = 'suspended' then 'suspended'
      else 'resumed'
    end,
    nullif(pg_catalog.left(pg_catalog.current_setting('postern.operator', true), 1000), ''),
    new.name, new.key_limit, new.tenant_limit);
  return null;
end
$$;
grant execute on function keys.note_tenant_change() to postern_keys_definer;

create trigger tenant_made_is_noted after insert on keys.tenant
  for each row execute function keys.note_tenant_change();
create trigger tenant_change_is_noted after update on keys.tenant
  for each row when (new.version <> old.version) execute function keys.note_tenant_change();

call tenancy.protect_table('keys.tenant', 'postern_keys', array['select', 'update']);
call tenancy.admit_definer('keys.tenant', 'postern_keys_definer', array['select', 'insert', 'update']);
revoke update on keys.tenant from postern_keys_definer;
grant update (status) on keys.tenant to postern_keys_definer;
revoke update on keys.tenant from postern_keys;
grant update (max_key_days, required_addresses) on keys.tenant to postern_keys;
grant update (name, key_limit, tenant_limit) on keys.tenant to postern_keys_definer;

create table keys.tenant_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  type text not null,
  at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  operator text,
  name text not null,
  key_limit integer not null,
  tenant_limit integer not null,
  constraint tenant_event_pk primary key (tenant_id, id),
  constraint tenant_event_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint tenant_event_type_known check (type in ('created', 'suspended', 'resumed', 'changed')),
  constraint tenant_event_operator_length check (char_length(operator) between 1 and 1000)
);
comment on table keys.tenant_event is
  'Each change of a tenant by the operator, with the name and limits that it has from then on: only grows. A change and its event are one transaction.';
comment on column keys.tenant_event.operator is 'The name that the operator goes by; null for a change by SQL.';

create trigger tenant_event_only_grows before update or delete on keys.tenant_event
  for each row execute function tenancy.refuse_change();
create trigger tenant_event_never_emptied before truncate on keys.tenant_event
  for each statement execute function tenancy.refuse_change();

call tenancy.admit_definer('keys.tenant_event', 'postern_keys_definer', array['select', 'insert']);

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

create table keys.api_key (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  hash bytea not null,
  last_four text not null,
  label text not null,
  scopes text[] not null,
  allowed_addresses cidr[] not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  expires_at timestamptz not null,
  made_for interval not null,
  revoked_at timestamptz,
  revoked_by_type text,
  revoked_by_id text,
  revoked_by_label text,
  revoke_reason text,
  last_used_at timestamptz,
  rotated_from uuid,
  version integer not null default 1,
  limit_id uuid,
  last_refused_at timestamptz,
  constraint api_key_pk primary key (tenant_id, id),
  -- Over all tenants, since a key is looked up before its tenant is known. It tells a tenant nothing about another: nobody
  -- can come upon a hash of 256 random bits.
  constraint api_key_hash_unique unique (hash),
  constraint api_key_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint api_key_rotated_from_fk foreign key (tenant_id, rotated_from) references keys.api_key (tenant_id, id),
  constraint api_key_hash_length check (octet_length(hash) = 32),
  constraint api_key_last_four_form check (last_four ~ '^[0-9A-Za-z]{4}$'),
  constraint api_key_label_length check (char_length(label) between 1 and 100),
  -- No scopes would be a key that can do nothing, or, to a careless reader, everything.
  constraint api_key_scopes_some check (cardinality(scopes) between 1 and 9 and array_position(scopes, null) is null),
  constraint api_key_scopes_known check (scopes <@ array[
    'read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync',
    'read:*', 'write:*', 'admin:*', '*']),
  constraint api_key_addresses_few check (
    cardinality(allowed_addresses) <= 100 and array_position(allowed_addresses, null) is null),
  constraint api_key_created_by_type_known check (created_by_type in ('user', 'operator')),
  constraint api_key_revoked_by_type_known check (revoked_by_type in ('user', 'operator')),
  constraint api_key_revoked_by_someone check (
    num_nonnulls(revoked_at, revoked_by_type, revoked_by_id, revoked_by_label) in (0, 4)),
  constraint api_key_reason_when_revoked check (revoke_reason is null or revoked_at is not null),
  constraint api_key_reason_length check (char_length(revoke_reason) between 1 and 500),
  constraint api_key_expires_after_creation check (expires_at >= created_at)
) with (fillfactor = 80);
comment on column keys.api_key.hash is 'SHA-256 of the key. The key itself is stored nowhere.';
comment on column keys.api_key.made_for is 'From creation to the expiry it was made with: how long a key that replaces it lives.';
comment on column keys.api_key.version is 'Grows with every change but that of last_used_at and last_refused_at; counted by the guard trigger, never by the writer.';
comment on column keys.api_key.limit_id is 'Under which id the requests of the key are counted: that of the first key of its chain of rotations. Null in the first key.';
comment on column keys.api_key.last_refused_at is 'When a request with the key was last refused, for whatever reason.';
create index api_key_successor on keys.api_key (tenant_id, rotated_from) where rotated_from is not null;

create trigger api_key_never_deleted before delete on keys.api_key
  for each row execute function tenancy.refuse_change();
create trigger api_key_never_emptied before truncate on keys.api_key
  for each statement execute function tenancy.refuse_change();

-- The last word on a key's life. Whoever writes, by whatever statement: a key begins active and unused, revoked is final,
-- nothing but label, scopes, addresses, expiry, revocation and last use ever changes, and none of it ever gets wider.
create function keys.guard_api_key() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  moment constant timestamptz := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());
  max_days integer;
begin
  if tg_op = 'INSERT' then
    if new.revoked_at is not null or new.last_used_at is not null or new.last_refused_at is not null or new.version <> 1 then
      raise exception using errcode = '23514', constraint = 'api_key_begins_active', message = 'a key begins active and unused';
    end if;
    if new.created_at > moment then
      raise exception using errcode = '23514', constraint = 'api_key_created_now', message = 'a key is not made in the future';
    end if;
    select t.max_key_days into max_days from keys.tenant as t where t.tenant_id = new.tenant_id;
    if found and new.expires_at > new.created_at + pg_catalog.make_interval(hours => 24 * max_days) then
      raise exception using errcode = '23514', constraint = 'api_key_within_maximum', message = 'the key would live too long';
    end if;
    new.made_for := new.expires_at - new.created_at;
    select coalesce(k.limit_id, k.id) into new.limit_id
      from keys.api_key as k
     where k.tenant_id = new.tenant_id
       and k.id = new.rotated_from;
    return new;
  end if;

  if (new.tenant_id, new.id, new.hash, new.last_four, new.created_by_type, new.created_by_id, new.created_by_label,
      new.created_at, new.made_for, new.rotated_from, new.limit_id)
     is distinct from
     (old.tenant_id, old.id, old.hash, old.last_four, old.created_by_type, old.created_by_id, old.created_by_label,
      old.created_at, old.made_for, old.rotated_from, old.limit_id) then
    raise exception using errcode = '23514', constraint = 'api_key_origin_is_fixed', message = 'what a key was made as never changes';
  end if;
  if new.last_used_at is null and old.last_used_at is not null or new.last_used_at < old.last_used_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_use_grows', message = 'the last use of a key never goes back';
  end if;
  if new.last_refused_at is null and old.last_refused_at is not null or new.last_refused_at < old.last_refused_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_refusal_grows', message = 'the last refusal of a key never goes back';
  end if;

  new.version := old.version;
  if (new.label, new.scopes, new.allowed_addresses, new.expires_at,
      new.revoked_at, new.revoked_by_type, new.revoked_by_id, new.revoked_by_label, new.revoke_reason)
     is not distinct from
     (old.label, old.scopes, old.allowed_addresses, old.expires_at,
      old.revoked_at, old.revoked_by_type, old.revoked_by_id, old.revoked_by_label, old.revoke_reason) then
    return new;
  end if;

  if old.revoked_at is not null then
    raise exception using errcode = '23514', constraint = 'api_key_revoked_is_final', message = 'a revoked key never changes';
  end if;
  if new.expires_at > old.expires_at
     or not keys.narrows_addresses(new.allowed_addresses, old.allowed_addresses)
     or exists (
          select
            from pg_catalog.unnest(new.scopes) as s (scope)
           where keys.covers_scope(old.scopes, s.scope) is not true) then
    raise exception using errcode = '23514', constraint = 'api_key_only_narrows', message = 'a key never gets wider';
  end if;
  if new.revoked_at is not null then
    -- The database's clock, whatever the writer thinks.
    new.revoked_at := moment;
  end if;
  new.version := old.version + 1;
  return new;
end
$$;
grant execute on function keys.guard_api_key() to postern_keys, postern_keys_definer;

create trigger api_key_guard before insert or update on keys.api_key
  for each row execute function keys.guard_api_key();
create constraint trigger api_key_change_is_logged after update on keys.api_key
  deferrable initially deferred
  for each row when (new.version <> old.version) execute function keys.log_change();

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
grant execute on function keys.guard_key_policy() to postern_keys, postern_keys_definer;

create trigger api_key_made_by_policy before insert on keys.api_key
  for each row execute function keys.guard_key_policy();
create trigger api_key_changed_by_policy before update of allowed_addresses on keys.api_key
  for each row when (new.allowed_addresses is distinct from old.allowed_addresses) execute function keys.guard_key_policy();
call tenancy.give_function('keys.log_change()', 'postern_keys_definer', array[]::name[]);

call tenancy.protect_table('keys.api_key', 'postern_keys', array['select', 'insert', 'update']);
call tenancy.admit_definer('keys.api_key', 'postern_keys_definer', array['select', 'update']);
-- Columns: what is written once is not even offered for change. The trigger below refuses it as well.
revoke update on keys.api_key from postern_keys;
grant update (label, scopes, allowed_addresses, expires_at,
  revoked_at, revoked_by_type, revoked_by_id, revoked_by_label, revoke_reason) on keys.api_key to postern_keys;
revoke update on keys.api_key from postern_keys_definer;
grant update (last_used_at) on keys.api_key to postern_keys_definer;
grant update (last_refused_at) on keys.api_key to postern_keys_definer;

create table keys.api_key_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key_id uuid not null,
  type text not null,
  at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  actor_type text,
  actor_id text,
  actor_label text,
  address text,
  detail jsonb not null default '{}',
  constraint api_key_event_pk primary key (tenant_id, id),
  constraint api_key_event_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_event_type_known check (type in (
    'created', 'rotated', 'updated', 'revoked', 'denied_expired', 'denied_revoked', 'denied_address', 'denied_scope',
    'used_from_new_address')),
  constraint api_key_event_actor_whole check (num_nonnulls(actor_type, actor_id, actor_label) in (0, 3)),
  constraint api_key_event_address_length check (char_length(address) between 1 and 64),
  constraint api_key_event_detail_object check (jsonb_typeof(detail) = 'object')
);
comment on table keys.api_key_event is 'The audit trail: only grows. A change of a key and its event are one transaction.';
create index api_key_event_of_key on keys.api_key_event (tenant_id, key_id, id desc);

create trigger api_key_event_only_grows before update or delete on keys.api_key_event
  for each row execute function tenancy.refuse_change();
create trigger api_key_event_never_emptied before truncate on keys.api_key_event
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('keys.api_key_event', 'postern_keys', array['select', 'insert']);
call tenancy.admit_definer('keys.api_key_event', 'postern_keys_definer', array['insert']);

-- Addresses that a key was used from: the first use from each is in the audit trail.
create table keys.api_key_address (
  tenant_id uuid not null,
  key_id uuid not null,
  address text not null,
  first_used_at timestamptz not null default clock_timestamp(),
  last_used_at timestamptz not null default pg_catalog.clock_timestamp(),
  constraint api_key_address_pk primary key (tenant_id, key_id, address),
  constraint api_key_address_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_address_length check (char_length(address) between 1 and 64)
);

call tenancy.admit_definer('keys.api_key_address', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('keys.api_key_address', 'postern_keys', array['select']);

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

-- Refused uses that are counted and not yet in the audit trail: one event a key, reason and minute, whatever an attacker does.
create table keys.api_key_denial (
  tenant_id uuid not null,
  key_id uuid not null,
  reason text not null,
  noted_at timestamptz not null default '-infinity',
  pending bigint not null default 0,
  address text not null,
  pending_addresses jsonb not null default '{}',
  constraint api_key_denial_pk primary key (tenant_id, key_id, reason),
  constraint api_key_denial_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_denial_reason_known check (reason in ('expired', 'revoked', 'address', 'scope')),
  constraint api_key_denial_pending_not_negative check (pending >= 0),
  constraint api_key_denial_address_length check (char_length(address) between 1 and 64),
  constraint api_key_denial_pending_addresses_object check (jsonb_typeof(pending_addresses) = 'object')
);
comment on column keys.api_key_denial.pending_addresses is 'Attempts among the pending ones by address, of the ten addresses that most came from.';
create index api_key_denial_due on keys.api_key_denial (tenant_id, noted_at) where pending > 0;

call tenancy.admit_definer('keys.api_key_denial', 'postern_keys_definer', array['select', 'insert', 'update']);

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
comment on table keys.api_key_use is 'Requests of a key by day (UTC) and route, of the last month.';
-- For dropping what is old.
create index api_key_use_by_day on keys.api_key_use (day);

call tenancy.protect_table('keys.api_key_use', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_use', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);

-- Where the revocation log stands. INVARIANT: a transaction takes this row's lock as its last act and keeps it to its end,
-- so that entries become visible in the order of their numbers and none is ever missing before one that can be seen. A
-- sequence promises neither: a gateway that has read up to 5 would never learn of a 4 that commits later.
create table keys.revocation_seq (
  single boolean not null default true,
  seq bigint not null default 0,
  mark text not null
    default pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.gen_random_uuid()::text, 'UTF8')), 'hex'),
  constraint revocation_seq_pk primary key (single),
  constraint revocation_seq_one_row check (single)
);
comment on column keys.revocation_seq.mark is
  'SHA-256, in hex, of the mark before and the last entry: "mark seq kind hash-or-tenant version revoked", in UTF-8';

insert into keys.revocation_seq (single) values (true);

grant select, update on keys.revocation_seq to postern_keys_definer;

create table keys.revocation (
  seq bigint not null,
  kind text not null,
  tenant_id uuid not null,
  hash bytea,
  version integer not null,
  revoked boolean not null,
  at timestamptz not null default clock_timestamp(),
  mark_before text,
  constraint revocation_pk primary key (seq),
  constraint revocation_kind_known check (kind in ('key', 'tenant')),
  constraint revocation_hash_of_key check ((hash is not null) = (kind = 'key'))
);
comment on table keys.revocation is 'What gateways must forget, in commit order. kind key: records of the hash below version; kind tenant: those of the tenant.';
comment on column keys.revocation.mark_before is 'The mark up to the entry before.';
create index revocation_of_key on keys.revocation (hash, seq) where kind = 'key';
create index revocation_of_tenant on keys.revocation (tenant_id, kind, seq);

call tenancy.admit_definer('keys.revocation', 'postern_keys_definer', array['select', 'insert', 'delete']);

-- A row for every gateway process. Until lease_until the gateway may answer from its caches; it has applied the log up to acked.
create table keys.gateway_lease (
  gateway uuid not null,
  name text not null,
  acked bigint not null,
  lease_until timestamptz not null,
  grant_id uuid not null default pg_catalog.gen_random_uuid(),
  released boolean not null default false,
  constraint gateway_lease_pk primary key (gateway),
  constraint gateway_lease_name_length check (char_length(name) <= 100)
) with (fillfactor = 50);
comment on column keys.gateway_lease.grant_id is 'another one with each grant, and never one that was: whether the lease was renewed';
comment on column keys.gateway_lease.lease_until is 'for people and the gauge; what a revoke waits for goes by no wall clock';

grant select, insert, update, delete on keys.gateway_lease to postern_keys_definer;

call tenancy.create_idempotency_table('keys', 'postern_keys');

-- Look-ups. In the bodies of definer functions, types are named with their schema, because the temporary types of a caller
-- come first on any search path.

-- The key with this hash as the gateway needs it. read_at_ms is taken before the rows are read, so that a cache that counts
-- from it never keeps them too long.
create function keys.find_key_by_hash(wanted bytea)
returns table (
  id uuid, tenant_id uuid, tenant_name text, tenant_status text, tenant_version integer, label text, last_four text,
  scopes text[], allowed_addresses text[], expires_at_ms bigint, revoked boolean, version integer,
  key_limit integer, tenant_limit integer, limit_id uuid, read_at_ms bigint)
language sql
stable
security definer
set search_path = ''
as $$
  select k.id, k.tenant_id, t.name, t.status, t.version, k.label, k.last_four,
         k.scopes, k.allowed_addresses::pg_catalog.text[], pg_catalog.floor(extract(epoch from k.expires_at) * 1000)::pg_catalog.int8,
         k.revoked_at is not null, k.version, t.key_limit, t.tenant_limit,
         coalesce(k.limit_id, k.id),
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.api_key as k
    join keys.tenant as t on t.tenant_id = k.tenant_id
   where k.hash = wanted
$$;
call tenancy.give_function('keys.find_key_by_hash(bytea)', 'postern_keys_definer', array['postern_keys']);

create function keys.find_tenant(wanted uuid)
returns table (tenant_name text, tenant_status text, tenant_version integer, tenant_limit integer, read_at_ms bigint)
language sql
stable
security definer
set search_path = ''
as $$
  select t.name, t.status, t.version, t.tenant_limit,
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.tenant as t
   where t.tenant_id = wanted
$$;
call tenancy.give_function('keys.find_tenant(uuid)', 'postern_keys_definer', array['postern_keys']);

-- Leases of gateways.

-- Grants or renews the lease of a gateway whose cursor is the end of this log, and returns whether it did. A cursor without
-- a mark is believed. INVARIANT: the lease is committed before the log is read for the answer, in another snapshot. A gateway
-- that lags or is ahead of the log gets nothing, and its lease runs out. Otherwise a revocation could wait forever.
create function keys.grant_lease(
  for_gateway uuid, for_name text, cursor_seq bigint, cursor_mark text, lease_ms integer) returns boolean
language plpgsql
security definer
set search_path = ''
as $$
begin
  insert into keys.gateway_lease as l (gateway, name, acked, lease_until, grant_id)
  select for_gateway, for_name, cursor_seq, pg_catalog.clock_timestamp() + lease_ms * interval '1 millisecond',
         pg_catalog.gen_random_uuid()
    from keys.revocation_seq as c
   where c.seq = cursor_seq
     and c.mark = coalesce(cursor_mark, c.mark)
      on conflict (gateway) do update
     set name = excluded.name,
         acked = greatest(l.acked, excluded.acked),
         lease_until = greatest(l.lease_until, excluded.lease_until),
         grant_id = excluded.grant_id,
         released = false;
  if found then
    return true;
  end if;
  -- It lags again, but what it has applied it has applied: who waits for an earlier entry need wait no longer.
  update keys.gateway_lease as l
     set acked = cursor_seq
   where l.gateway = for_gateway
     and l.acked < cursor_seq
     and cursor_seq <= (select c.seq from keys.revocation_seq as c where c.single)
     and (cursor_mark is null or coalesce(keys.mark_at(cursor_seq), cursor_mark) = cursor_mark);
  return false;
end
$$;
call tenancy.give_function('keys.grant_lease(uuid, text, bigint, text, integer)', 'postern_keys_definer', array['postern_keys']);

create function keys.release_lease(for_gateway uuid) returns void
language sql
security definer
set search_path = ''
as $$
  update keys.gateway_lease as l
     set released = true,
         lease_until = least(l.lease_until, pg_catalog.clock_timestamp())
   where l.gateway = for_gateway
     and not l.released
$$;
call tenancy.give_function('keys.release_lease(uuid)', 'postern_keys_definer', array['postern_keys']);

-- Every gateway that has held a lease in the last minute, and whether the lease still runs.
create function keys.read_leases() returns table (gateway uuid, acked bigint, live boolean)
language sql
stable
security definer
set search_path = ''
as $$
  select l.gateway, l.acked, l.lease_until > pg_catalog.clock_timestamp()
    from keys.gateway_lease as l
   where l.lease_until > pg_catalog.clock_timestamp() - interval '1 minute'
$$;
call tenancy.give_function('keys.read_leases()', 'postern_keys_definer', array['postern_keys']);

-- Every gateway that held a lease and is not forgotten: how far it has come, and which grant was its last.
create function keys.read_grants() returns table (gateway uuid, acked bigint, grant_id uuid, released boolean)
language sql
stable
security definer
set search_path = ''
as $$
  select l.gateway, l.acked, l.grant_id, l.released from keys.gateway_lease as l
$$;
call tenancy.give_function('keys.read_grants()', 'postern_keys_definer', array['postern_keys']);

-- Forgets gateways that are gone. The caller has seen each without a new grant for many leases, by his own clock.
create function keys.forget_leases(gone uuid[], last_grants uuid[]) returns void
language sql
security definer
set search_path = ''
as $$
  delete from keys.gateway_lease as l
   using rows from (pg_catalog.unnest(gone), pg_catalog.unnest(last_grants)) as g (gateway, grant_id)
   where l.gateway = g.gateway
     and l.grant_id = g.grant_id
$$;
call tenancy.give_function('keys.forget_leases(uuid[], uuid[])', 'postern_keys_definer', array['postern_keys']);

-- The log of revocations.

-- The mark of the log up to a number; null where nobody knows it any more.
create function keys.mark_at(wanted bigint) returns text
language sql
stable
security definer
set search_path = ''
as $$
  select case c.seq
           when wanted then c.mark
           else (select r.mark_before from keys.revocation as r where r.seq = wanted + 1)
         end
    from keys.revocation_seq as c
   where c.single
$$;
call tenancy.give_function('keys.mark_at(bigint)', 'postern_keys_definer', array[]::name[]);

-- The log behind a cursor, and its mark up to the last entry that is given. A cursor of another log is none that it can follow.
create function keys.follow_log(cursor_seq bigint, cursor_mark text, at_most integer)
returns table (log_seq bigint, mark text, reset boolean, entries jsonb, now_ms bigint)
language sql
stable
security definer
set search_path = ''
as $$
  with log as (
    select c.seq,
           coalesce((select pg_catalog.min(r.seq) from keys.revocation as r), c.seq + 1) - 1 as before_first
      from keys.revocation_seq as c
     where c.single),
  start as (
    select log.seq,
           cursor_seq is not null
             and (cursor_seq > log.seq
               or cursor_seq < log.before_first
               or coalesce(keys.mark_at(cursor_seq) <> cursor_mark, false)) as reset
      from log),
  entry as (
    select r.seq, r.kind, r.tenant_id, r.hash, r.version, r.revoked
      from keys.revocation as r
     where r.seq > (select case when cursor_seq is null or start.reset then 0 else cursor_seq end from start)
     order by r.seq
     limit at_most)
  select start.seq,
         keys.mark_at((
           select case when pg_catalog.count(*) < at_most then start.seq else pg_catalog.max(entry.seq) end from entry)),
         start.reset,
         coalesce((
           select pg_catalog.jsonb_agg(case entry.kind
                    when 'key' then pg_catalog.jsonb_build_object('kind', 'key', 'seq', entry.seq,
                      'hash', pg_catalog.encode(entry.hash, 'hex'), 'version', entry.version, 'revoked', entry.revoked)
                    else pg_catalog.jsonb_build_object('kind', 'tenant', 'seq', entry.seq,
                      'tenantId', entry.tenant_id, 'version', entry.version)
                  end order by entry.seq)
             from entry), '[]'),
         pg_catalog.floor(extract(epoch from pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8
    from start
$$;
call tenancy.give_function('keys.follow_log(bigint, text, integer)', 'postern_keys_definer', array['postern_keys']);

-- The last entry of a key, or of a tenant; none when the log has dropped it, and every lease there is was granted since.
create function keys.last_key_change(wanted bytea) returns table (seq bigint, version integer, revoked boolean)
language sql
stable
security definer
set search_path = ''
as $$
  select r.seq, r.version, r.revoked
    from keys.revocation as r
   where r.kind = 'key'
     and r.hash = wanted
   order by r.seq desc
   limit 1
$$;
call tenancy.give_function('keys.last_key_change(bytea)', 'postern_keys_definer', array['postern_keys']);

create function keys.last_tenant_change(wanted uuid) returns table (seq bigint, version integer)
language sql
stable
security definer
set search_path = ''
as $$
  select r.seq, r.version
    from keys.revocation as r
   where r.kind = 'tenant'
     and r.tenant_id = wanted
   order by r.seq desc
   limit 1
$$;
call tenancy.give_function('keys.last_tenant_change(uuid)', 'postern_keys_definer', array['postern_keys']);

-- Drops log entries up to a number, from the oldest on, so that none is missing between two that are there. It drops none unless
-- the server is the one that the caller has seen the number on, as its start tells: after a restore or a failover entries may be
-- lost, and their numbers come again. Gives where the log stands, how many entries it held, and the start of this server.
create function keys.prune_log(up_to bigint, of_server numeric, at_most integer)
returns table (log_seq bigint, held bigint, server numeric)
language sql
security definer
set search_path = ''
as $$
  with log as (
    select c.seq,
           coalesce((select pg_catalog.min(r.seq) from keys.revocation as r), c.seq + 1) as first,
           extract(epoch from pg_catalog.pg_postmaster_start_time()) as server
      from keys.revocation_seq as c
     where c.single),
  dropped as (
    delete from keys.revocation as r
     where r.seq in (
             select o.seq
               from keys.revocation as o, log
              where o.seq <= up_to
                -- Of a database that was restored in a server that went on, too, the numbers are others.
                and up_to <= log.seq
                and log.server = of_server
              order by o.seq
              limit at_most))
  select log.seq, log.seq - log.first + 1, log.server from log
$$;
call tenancy.give_function('keys.prune_log(bigint, numeric, integer)', 'postern_keys_definer', array['postern_keys']);

-- Usage as gateways report it. A late report never creates a key or changes its state.

-- Records when and from where keys were used. A key keeps its newest hundred addresses.
create function keys.record_uses(uses jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
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
            from pg_catalog.jsonb_to_recordset(uses)
                 as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
           -- Without a route, every request of the line was refused for what it asked.
           where u.routes <> '{}'::pg_catalog.jsonb
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
$$;
call tenancy.give_function('keys.record_uses(jsonb)', 'postern_keys_definer', array['postern_keys']);

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
   group by 1, 2, 3, 4
  -- In one order, so that two reports about the same keys do not lock each other out.
   order by 1, 2, 3, 4
      on conflict (tenant_id, key_id, day, route) do update set requests = n.requests + excluded.requests
$$;
call tenancy.give_function('keys.count_uses(jsonb)', 'postern_keys_definer', array['postern_keys']);

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
call tenancy.give_function('keys.prune_uses(integer, integer)', 'postern_keys_definer', array['postern_keys']);

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
call tenancy.give_function('keys.record_people(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Adds two counts by address and keeps the ten addresses with the most.
create function keys.add_counts(counts jsonb, more jsonb) returns jsonb
language sql
immutable
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
grant execute on function keys.add_counts(jsonb, jsonb) to postern_keys_definer;

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
call tenancy.give_function('keys.insert_denials(uuid, uuid, text, bigint, jsonb)', 'postern_keys_definer', array[]::name[]);

-- The first refusal of a key is in the trail at once, later ones at most once a minute with their number.
create function keys.record_denials(denials jsonb) returns void
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
call tenancy.give_function('keys.record_denials(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Writes the events of refusals that were counted over a minute ago and followed by none; gives their number.
create function keys.note_pending_denials(at_most integer) returns integer
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
call tenancy.give_function('keys.note_pending_denials(integer)', 'postern_keys_definer', array['postern_keys']);

-- Notes when keys were last refused. Update only, and never back.
create function keys.record_refusals(refusals jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select r."tenantId", r."keyId" from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_refused_at = seen.at
    from (select r."tenantId" as tenant_id, r."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(r.at / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, at pg_catalog.int8)
           group by r."tenantId", r."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_refused_at is null or k.last_refused_at < seen.at);
end
$$;
call tenancy.give_function('keys.record_refusals(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Tenants, for the operator of the platform. Each function verifies the assertion of the operator first.

create function keys.create_tenant(new_slug text, new_name text, by_operator text)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  return query
    insert into keys.tenant as t (slug, name) values (new_slug, new_name)
    returning t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at;
end
$$;
call tenancy.give_function('keys.create_tenant(text, text, text)', 'postern_keys_definer', array['postern_keys']);

create function keys.list_tenants(behind_slug text, at_most integer)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language sql
stable
security definer
set search_path = ''
as $$
  select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
    from keys.tenant as t
   where (select tenancy.assert_operator())
     and t.slug > coalesce(behind_slug, '')
   order by t.slug
   limit at_most
$$;
call tenancy.give_function('keys.list_tenants(text, integer)', 'postern_keys_definer', array['postern_keys']);

-- Sets what is given of the tenant with this id or slug, leaves what is null, and gives it as it is then.
create function keys.update_tenant(
  id_or_slug text, new_status text, new_name text, new_key_limit integer, new_tenant_limit integer, by_operator text)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language plpgsql
security definer
set search_path = ''
as $$
declare
  found_id pg_catalog.uuid;
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  select t.tenant_id into found_id from keys.tenant as t where id_or_slug in (t.tenant_id::pg_catalog.text, t.slug) for update;
  update keys.tenant as t
     set status = coalesce(new_status, t.status),
         name = coalesce(new_name, t.name),
         key_limit = coalesce(new_key_limit, t.key_limit),
         tenant_limit = coalesce(new_tenant_limit, t.tenant_limit)
   where t.tenant_id = found_id
     and (t.status, t.name, t.key_limit, t.tenant_limit) is distinct from
         (coalesce(new_status, t.status), coalesce(new_name, t.name), coalesce(new_key_limit, t.key_limit), coalesce(new_tenant_limit, t.tenant_limit));
  return query
    select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
      from keys.tenant as t where t.tenant_id = found_id;
end
$$;
call tenancy.give_function('keys.update_tenant(text, text, text, integer, integer, text)', 'postern_keys_definer', array['postern_keys']);

-- The trail of the tenant with this id or slug, the latest first.
create function keys.list_tenant_events(id_or_slug text, before_id uuid, at_most integer)
returns table (id uuid, type text, at timestamptz, operator text, name text, key_limit integer, tenant_limit integer)
language sql
stable
security definer
set search_path = ''
as $$
  select e.id, e.type, e.at, e.operator, e.name, e.key_limit, e.tenant_limit
    from keys.tenant_event as e
    join keys.tenant as t on t.tenant_id = e.tenant_id
   where (select tenancy.assert_operator())
     and id_or_slug in (t.tenant_id::pg_catalog.text, t.slug)
     and (before_id is null or e.id < before_id)
   order by e.id desc
   limit at_most
$$;
call tenancy.give_function('keys.list_tenant_events(text, uuid, integer)', 'postern_keys_definer', array['postern_keys']);

