-- API keys, their audit trail, the tenants they belong to, and the log from which gateways learn that a key or a tenant
-- has changed. services/keys/README.md lists the invariants; revocation/README.md explains the log and the leases.

create schema keys;

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
  constraint tenant_pk primary key (tenant_id),
  constraint tenant_slug_unique unique (slug),
  constraint tenant_id_not_nil check (tenant_id <> '00000000-0000-0000-0000-000000000000'),
  constraint tenant_slug_form check (slug ~ '^[a-z][a-z0-9-]{1,62}$'),
  constraint tenant_name_length check (char_length(name) between 1 and 200),
  constraint tenant_status_known check (status in ('active', 'suspended')),
  constraint tenant_max_key_days_range check (max_key_days between 1 and 36500),
  constraint tenant_key_limit_positive check (key_limit >= 1),
  constraint tenant_tenant_limit_positive check (tenant_limit >= 1)
);
comment on column keys.tenant.version is 'Grows with every change of the status: what a gateway has cached of a lower version is void.';
comment on column keys.tenant.max_key_days is 'How many days a key of this tenant may live at most.';
comment on column keys.tenant.key_limit is 'Requests a minute that one key may make over all gateways.';
comment on column keys.tenant.tenant_limit is 'Requests a minute that all keys of the tenant together may make over all gateways.';

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
comment on column keys.api_key.version is 'Grows with every change but that of last_used_at; counted by the guard trigger, never by the writer.';

-- Newest first is by id: version 7 UUIDs grow with time. The primary key serves lists and single keys alike.

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
    'created', 'rotated', 'updated', 'revoked', 'denied_expired', 'denied_revoked', 'used_from_new_address')),
  constraint api_key_event_actor_whole check (num_nonnulls(actor_type, actor_id, actor_label) in (0, 3)),
  constraint api_key_event_address_length check (char_length(address) between 1 and 64),
  constraint api_key_event_detail_object check (jsonb_typeof(detail) = 'object')
);
create index api_key_event_of_key on keys.api_key_event (tenant_id, key_id, id desc);
comment on table keys.api_key_event is 'The audit trail: only grows. A change of a key and its event are one transaction.';

-- Addresses that a key was used from: the first use from each is in the audit trail.
create table keys.api_key_address (
  tenant_id uuid not null,
  key_id uuid not null,
  address text not null,
  first_used_at timestamptz not null default clock_timestamp(),
  constraint api_key_address_pk primary key (tenant_id, key_id, address),
  constraint api_key_address_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_address_length check (char_length(address) between 1 and 64)
);

-- Refused uses that are counted and not yet in the audit trail: one event a key, reason and minute, whatever an attacker does.
create table keys.api_key_denial (
  tenant_id uuid not null,
  key_id uuid not null,
  reason text not null,
  noted_at timestamptz not null default '-infinity',
  pending bigint not null default 0,
  address text not null,
  constraint api_key_denial_pk primary key (tenant_id, key_id, reason),
  constraint api_key_denial_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_denial_reason_known check (reason in ('expired', 'revoked')),
  constraint api_key_denial_pending_not_negative check (pending >= 0),
  constraint api_key_denial_address_length check (char_length(address) between 1 and 64)
);
create index api_key_denial_due on keys.api_key_denial (tenant_id, noted_at) where pending > 0;

-- Where the revocation log stands. INVARIANT: a transaction takes this row's lock as its last act and keeps it to its end,
-- so that entries become visible in the order of their numbers and none is ever missing before one that can be seen. A
-- sequence promises neither: a gateway that has read up to 5 would never learn of a 4 that commits later.
create table keys.revocation_seq (
  single boolean not null default true,
  seq bigint not null default 0,
  constraint revocation_seq_pk primary key (single),
  constraint revocation_seq_one_row check (single)
);
insert into keys.revocation_seq (single) values (true);

create table keys.revocation (
  seq bigint not null,
  kind text not null,
  tenant_id uuid not null,
  hash bytea,
  version integer not null,
  revoked boolean not null,
  at timestamptz not null default clock_timestamp(),
  constraint revocation_pk primary key (seq),
  constraint revocation_kind_known check (kind in ('key', 'tenant')),
  constraint revocation_hash_of_key check ((hash is not null) = (kind = 'key'))
);
create index revocation_of_key on keys.revocation (hash, seq) where kind = 'key';
create index revocation_of_tenant on keys.revocation (tenant_id, kind, seq);
comment on table keys.revocation is 'What gateways must forget, in commit order. kind key: records of the hash below version; kind tenant: those of the tenant.';

-- A row for every gateway process. Until lease_until the gateway may answer from its caches; it has applied the log up to acked.
create table keys.gateway_lease (
  gateway uuid not null,
  name text not null,
  acked bigint not null,
  lease_until timestamptz not null,
  constraint gateway_lease_pk primary key (gateway),
  constraint gateway_lease_name_length check (char_length(name) <= 100)
) with (fillfactor = 50);

-- Who may touch what -------------------------------------------------------------------------------------------------

call tenancy.protect_table('keys.tenant', 'postern_keys', array['select']);
call tenancy.protect_table('keys.api_key', 'postern_keys', array['select', 'insert', 'update']);
call tenancy.protect_table('keys.api_key_event', 'postern_keys', array['select', 'insert']);

call tenancy.admit_definer('keys.tenant', 'postern_keys_definer', array['select', 'insert', 'update']);
call tenancy.admit_definer('keys.api_key', 'postern_keys_definer', array['select', 'update']);
call tenancy.admit_definer('keys.api_key_event', 'postern_keys_definer', array['insert']);
call tenancy.admit_definer('keys.api_key_address', 'postern_keys_definer', array['select', 'insert']);
call tenancy.admit_definer('keys.api_key_denial', 'postern_keys_definer', array['select', 'insert', 'update']);
call tenancy.admit_definer('keys.revocation', 'postern_keys_definer', array['select', 'insert', 'delete']);
grant select, update on keys.revocation_seq to postern_keys_definer;
grant select, insert, update, delete on keys.gateway_lease to postern_keys_definer;

-- Columns: what is written once is not even offered for change. The trigger below refuses it as well.
revoke update on keys.api_key from postern_keys;
grant update (label, scopes, allowed_addresses, expires_at,
  revoked_at, revoked_by_type, revoked_by_id, revoked_by_label, revoke_reason) on keys.api_key to postern_keys;
revoke update on keys.api_key from postern_keys_definer;
grant update (last_used_at) on keys.api_key to postern_keys_definer;
revoke update on keys.tenant from postern_keys_definer;
grant update (status) on keys.tenant to postern_keys_definer;

-- The database keeps the invariants --------------------------------------------------------------------------------------

create trigger api_key_event_only_grows before update or delete on keys.api_key_event
  for each row execute function tenancy.refuse_change();
create trigger api_key_event_never_emptied before truncate on keys.api_key_event
  for each statement execute function tenancy.refuse_change();
create trigger api_key_never_deleted before delete on keys.api_key
  for each row execute function tenancy.refuse_change();
create trigger api_key_never_emptied before truncate on keys.api_key
  for each statement execute function tenancy.refuse_change();

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
    if new.revoked_at is not null or new.last_used_at is not null or new.version <> 1 then
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
    return new;
  end if;

  if (new.tenant_id, new.id, new.hash, new.last_four, new.created_by_type, new.created_by_id, new.created_by_label,
      new.created_at, new.made_for, new.rotated_from)
     is distinct from
     (old.tenant_id, old.id, old.hash, old.last_four, old.created_by_type, old.created_by_id, old.created_by_label,
      old.created_at, old.made_for, old.rotated_from) then
    raise exception using errcode = '23514', constraint = 'api_key_origin_is_fixed', message = 'what a key was made as never changes';
  end if;
  if new.last_used_at is null and old.last_used_at is not null or new.last_used_at < old.last_used_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_use_grows', message = 'the last use of a key never goes back';
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
create trigger api_key_guard before insert or update on keys.api_key
  for each row execute function keys.guard_api_key();

create function keys.guard_tenant() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case when new.status <> old.status then 1 else 0 end;
  return new;
end
$$;
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
begin
  -- A revocation that was answered must survive a crash, also where somebody has relaxed the server for speed.
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  update keys.revocation_seq as c set seq = c.seq + 1 where c.single returning c.seq into strict next;
  if tg_table_name = 'api_key' then
    insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked)
    values (next, 'key', new.tenant_id, new.hash, new.version, new.revoked_at is not null);
  else
    insert into keys.revocation (seq, kind, tenant_id, version, revoked)
    values (next, 'tenant', new.tenant_id, new.version, new.status = 'suspended');
  end if;
  return null;
end
$$;
create constraint trigger api_key_change_is_logged after update on keys.api_key
  deferrable initially deferred
  for each row when (new.version <> old.version) execute function keys.log_change();
create constraint trigger tenant_change_is_logged after update on keys.tenant
  deferrable initially deferred
  for each row when (new.version <> old.version) execute function keys.log_change();

grant execute on function keys.covers_scope(text[], text), keys.narrows_addresses(cidr[], cidr[]),
  keys.guard_api_key(), keys.guard_tenant() to postern_keys, postern_keys_definer;
call tenancy.give_function('keys.log_change()', 'postern_keys_definer', array[]::name[]);

-- In the bodies of what follows, types are named with their schema: a caller's temporary types come first on any path.
-- Look-ups: for the gateway, which does not know the tenant yet ---------------------------------------------------------

-- The key with this hash as the gateway needs it. read_at is taken before the rows are read, so that a cache that counts
-- from it never keeps them longer than it may.
create function keys.find_key_by_hash(wanted bytea)
returns table (
  id uuid, tenant_id uuid, tenant_name text, tenant_status text, tenant_version integer, label text, last_four text,
  scopes text[], allowed_addresses text[], expires_at_ms bigint, revoked boolean, version integer,
  key_limit integer, tenant_limit integer, read_at_ms bigint)
language sql
stable
security definer
set search_path = ''
as $$
  select k.id, k.tenant_id, t.name, t.status, t.version, k.label, k.last_four,
         k.scopes, k.allowed_addresses::pg_catalog.text[], pg_catalog.floor(extract(epoch from k.expires_at) * 1000)::pg_catalog.int8,
         k.revoked_at is not null, k.version, t.key_limit, t.tenant_limit,
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.api_key as k
    join keys.tenant as t on t.tenant_id = k.tenant_id
   where k.hash = wanted
$$;

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

-- Leases -----------------------------------------------------------------------------------------------------------------

-- Grants or renews a lease if the gateway has applied the whole log, and tells whether it did. INVARIANT: committed before
-- the log is read for the answer, in another snapshot. A gateway that lags or is ahead of the log gets nothing, and the
-- lease it has runs out: otherwise a revoke could wait for it without end.
create function keys.renew_lease(for_gateway uuid, for_name text, cursor_seq bigint, lease_ms integer) returns boolean
language plpgsql
security definer
set search_path = ''
as $$
begin
  insert into keys.gateway_lease as l (gateway, name, acked, lease_until)
  select for_gateway, for_name, cursor_seq, pg_catalog.clock_timestamp() + lease_ms * interval '1 millisecond'
    from keys.revocation_seq as c
   where c.seq = cursor_seq
      on conflict (gateway) do update
     set name = excluded.name,
         acked = greatest(l.acked, excluded.acked),
         lease_until = greatest(l.lease_until, excluded.lease_until);
  if found then
    return true;
  end if;
  -- It lags again, but what it has applied it has applied: who waits for an earlier entry need wait no longer.
  update keys.gateway_lease as l
     set acked = cursor_seq
   where l.gateway = for_gateway
     and l.acked < cursor_seq
     and cursor_seq <= (select c.seq from keys.revocation_seq as c where c.single);
  return false;
end
$$;

create function keys.release_lease(for_gateway uuid) returns void
language sql
security definer
set search_path = ''
as $$
  update keys.gateway_lease as l
     set lease_until = pg_catalog.clock_timestamp()
   where l.gateway = for_gateway
     and l.lease_until > pg_catalog.clock_timestamp()
$$;

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

-- What the log holds after a cursor: one statement, hence one snapshot. A null cursor, and one that the log cannot follow
-- (before what is retained, or ahead of the log: the database was restored), reads all of the last since_ms.
create function keys.read_log(cursor_seq bigint, since_ms bigint, at_most integer)
returns table (log_seq bigint, reset boolean, entries jsonb, now_ms bigint)
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
    select log.seq, cursor_seq is not null and (cursor_seq > log.seq or cursor_seq < log.before_first) as reset
      from log),
  entry as (
    select r.seq, r.kind, r.tenant_id, r.hash, r.version, r.revoked
      from keys.revocation as r, start
     where case when cursor_seq is null or start.reset
                then r.at > pg_catalog.clock_timestamp() - since_ms * interval '1 millisecond'
                else r.seq > cursor_seq
           end
     order by r.seq
     limit at_most)
  select start.seq, start.reset,
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

-- Usage: what gateways report. Update only: a late report neither makes a key nor changes its state -----------------------

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
            from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8)
           group by u."tenantId", u."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_used_at is null or k.last_used_at < seen.at);

  -- The first hundred addresses of a key; an attacker who changes address for every request writes no more than that.
  with fresh as (
    select seen.tenant_id, seen.key_id, seen.address,
           pg_catalog.row_number() over (partition by seen.tenant_id, seen.key_id order by seen.address) + (
             select pg_catalog.count(*)
               from keys.api_key_address as a
              where a.tenant_id = seen.tenant_id
                and a.key_id = seen.key_id) as place
      from (select distinct k.tenant_id, k.id as key_id, u.address
              from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text)
              join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId") as seen
     where not exists (
             select
               from keys.api_key_address as a
              where a.tenant_id = seen.tenant_id
                and a.key_id = seen.key_id
                and a.address = seen.address)),
  kept as (
    insert into keys.api_key_address (tenant_id, key_id, address)
    select fresh.tenant_id, fresh.key_id, fresh.address
      from fresh
     where fresh.place <= 100
        on conflict do nothing
    returning tenant_id, key_id, address)
  insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
  select kept.tenant_id, kept.key_id, 'used_from_new_address', kept.address,
         case when fresh.place = 100 then '{"last_address_noted": true}'::pg_catalog.jsonb else '{}'::pg_catalog.jsonb end
    from kept
    join fresh on fresh.tenant_id = kept.tenant_id and fresh.key_id = kept.key_id and fresh.address = kept.address;
end
$$;

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
begin
  for denied in
    select k.tenant_id, k.id as key_id, d.reason, pg_catalog.sum(d.count)::pg_catalog.int8 as count,
           (pg_catalog.array_agg(d.address order by d.at desc))[1] as address
      from pg_catalog.jsonb_to_recordset(denials)
           as d ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, reason pg_catalog.text, address pg_catalog.text, at pg_catalog.int8, count pg_catalog.int8)
      join keys.api_key as k on k.tenant_id = d."tenantId" and k.id = d."keyId"
     group by k.tenant_id, k.id, d.reason
     order by k.tenant_id, k.id, d.reason
  loop
    insert into keys.api_key_denial (tenant_id, key_id, reason, address)
    values (denied.tenant_id, denied.key_id, denied.reason, denied.address)
        on conflict do nothing;
    select n.noted_at, n.pending
      into strict noted
      from keys.api_key_denial as n
     where n.tenant_id = denied.tenant_id
       and n.key_id = denied.key_id
       and n.reason = denied.reason
       for update;
    moment := pg_catalog.clock_timestamp();
    if noted.noted_at <= moment - interval '1 minute' then
      insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
      values (denied.tenant_id, denied.key_id, 'denied_' || denied.reason, denied.address,
              pg_catalog.jsonb_build_object('attempts', noted.pending + denied.count));
      update keys.api_key_denial as n
         set noted_at = moment, pending = 0, address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    else
      update keys.api_key_denial as n
         set pending = n.pending + denied.count, address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    end if;
  end loop;
end
$$;

-- Housekeeping, called every few seconds by every replica: small steps, and whoever comes second skips what is locked ---

-- Writes the events of refusals that were counted over a minute ago and followed by none; gives their number.
create function keys.note_pending_denials(at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with due as (
    select n.tenant_id, n.key_id, n.reason, n.pending, n.address
      from keys.api_key_denial as n
     where n.pending > 0
       and n.noted_at <= pg_catalog.clock_timestamp() - interval '1 minute'
     order by n.tenant_id, n.key_id, n.reason
     limit at_most
       for update skip locked),
  written as (
    insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
    select due.tenant_id, due.key_id, 'denied_' || due.reason, due.address,
           pg_catalog.jsonb_build_object('attempts', due.pending)
      from due),
  cleared as (
    update keys.api_key_denial as n
       set noted_at = pg_catalog.clock_timestamp(), pending = 0
      from due
     where n.tenant_id = due.tenant_id and n.key_id = due.key_id and n.reason = due.reason
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from cleared
$$;

-- Drops log entries older than any cache can be, from the oldest on, and gateways that have been gone for an hour.
create function keys.prune(older_than_ms bigint, at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with gone as (
    delete from keys.gateway_lease as l
     where l.lease_until < pg_catalog.clock_timestamp() - interval '1 hour'),
  old as (
    select r.seq, r.at
      from keys.revocation as r
     order by r.seq
     limit at_most),
  dropped as (
    delete from keys.revocation as r
     using old
     where r.seq = old.seq
       and old.at < pg_catalog.clock_timestamp() - older_than_ms * interval '1 millisecond'
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from dropped
$$;

-- Tenants: for the platform's operator, who proves it with his own assertion ----------------------------------------------

create function keys.create_tenant(new_slug text, new_name text)
returns table (id uuid, slug text, name text, status text, version integer, created_at timestamptz)
language sql
security definer
set search_path = ''
as $$
  insert into keys.tenant as t (slug, name)
  select new_slug, new_name
   where tenancy.assert_operator()
  returning t.tenant_id, t.slug, t.name, t.status, t.version, t.created_at
$$;

create function keys.list_tenants(at_most integer)
returns table (id uuid, slug text, name text, status text, version integer, created_at timestamptz)
language sql
stable
security definer
set search_path = ''
as $$
  select t.tenant_id, t.slug, t.name, t.status, t.version, t.created_at
    from keys.tenant as t
   where (select tenancy.assert_operator())
   order by t.slug
   limit at_most
$$;

-- Sets the status of the tenant with this id or slug and gives it as it is then; a status that it has already stays.
create function keys.set_tenant_status(id_or_slug text, new_status text)
returns table (id uuid, slug text, name text, status text, version integer, created_at timestamptz)
language plpgsql
security definer
set search_path = ''
as $$
declare
  found_id pg_catalog.uuid;
begin
  perform tenancy.assert_operator();
  select t.tenant_id into found_id from keys.tenant as t where id_or_slug in (t.tenant_id::pg_catalog.text, t.slug) for update;
  update keys.tenant as t set status = new_status where t.tenant_id = found_id and t.status <> new_status;
  return query
    select t.tenant_id, t.slug, t.name, t.status, t.version, t.created_at from keys.tenant as t where t.tenant_id = found_id;
end
$$;

do $$
declare
  routine text;
begin
  foreach routine in array array[
    'keys.find_key_by_hash(bytea)', 'keys.find_tenant(uuid)',
    'keys.renew_lease(uuid, text, bigint, integer)', 'keys.release_lease(uuid)',
    'keys.read_leases()', 'keys.read_log(bigint, bigint, integer)',
    'keys.last_key_change(bytea)', 'keys.last_tenant_change(uuid)',
    'keys.record_uses(jsonb)', 'keys.record_denials(jsonb)', 'keys.note_pending_denials(integer)',
    'keys.prune(bigint, integer)',
    'keys.create_tenant(text, text)', 'keys.list_tenants(integer)', 'keys.set_tenant_status(text, text)']
  loop
    call tenancy.give_function(routine::regprocedure, 'postern_keys_definer', array['postern_keys']);
  end loop;
end
$$;
