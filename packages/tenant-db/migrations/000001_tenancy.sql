-- Who the tenant is, decided by PostgreSQL and not by the service that asks. README.md beside this folder explains it.

-- Every function of ours is closed until a migration opens it to a role.
alter default privileges revoke execute on functions from public;

create schema tenancy;

-- Where migrations put extensions (create extension … with schema extensions). It is the only schema on the search_path
-- of the runtime roles, who may use it and create nothing in it.
create schema extensions;
grant usage on schema extensions to
  postern_keys, postern_findings, postern_universe, postern_evidence, postern_sync, postern_keys_definer;

-- RFC 2104, section 2: the key, filled up with zeros to one block of SHA-256, each byte combined with a constant.
create function tenancy.hmac_pad(secret pg_catalog.bytea, pad pg_catalog.int4) returns pg_catalog.bytea
language plpgsql
immutable
strict
parallel safe
set search_path = ''
as $$
declare
  block pg_catalog.bytea := secret || pg_catalog.decode(pg_catalog.repeat('00', 64 - pg_catalog.octet_length(secret)), 'hex');
begin
  for position in 0..63 loop
    block := pg_catalog.set_byte(block, position, pg_catalog.get_byte(block, position) # pad);
  end loop;
  return block;
end
$$;

-- The secrets that tenant assertions are made with. Several at a time, so that one can be replaced while both are valid.
create table tenancy.assertion_secret (
  key_id text not null,
  secret bytea not null,
  -- The two halves of HMAC that do not depend on the message: computed here once, not once a statement.
  inner_pad bytea not null generated always as (tenancy.hmac_pad(secret, 54)) stored,
  outer_pad bytea not null generated always as (tenancy.hmac_pad(secret, 92)) stored,
  created_at timestamptz not null default now(),
  -- From then on it is refused; null: until it is deleted.
  not_after timestamptz,
  constraint assertion_secret_pk primary key (key_id),
  constraint assertion_secret_key_id_format check (key_id ~ '^[A-Za-z0-9_-]{1,32}$'),
  constraint assertion_secret_length check (octet_length(secret) between 32 and 64)
);

grant usage on schema tenancy to
  postern_tenancy, postern_keys_definer,
  postern_keys, postern_findings, postern_universe, postern_evidence, postern_sync;
-- Not the secret itself: what verifies does not need it.
grant select (key_id, inner_pad, outer_pad, not_after) on tenancy.assertion_secret to postern_tenancy;

-- The tenant that the assertion of this transaction names, or null when the assertion is not to be believed for
-- whatever reason. It says nothing about why. v1.<key id>.<tenant>.<expiry, Unix seconds>.<mac>
create function tenancy.asserted_tenant() returns pg_catalog.uuid
language plpgsql
stable
parallel safe
set search_path = ''
as $$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  part pg_catalog.text[];
  key record;
  mac pg_catalog.bytea;
  expires_in pg_catalog.numeric;
begin
  -- The shortest and the longest that there can be. Bounded before anything is computed from it.
  if assertion is null or pg_catalog.octet_length(assertion) not between 86 and 128 then
    return null;
  end if;
  part := pg_catalog.string_to_array(assertion, '.');
  if pg_catalog.cardinality(part) <> 5 or part[1] <> 'v1' then
    return null;
  end if;

  select s.inner_pad, s.outer_pad
    into key
    from tenancy.assertion_secret as s
   where s.key_id = part[2]
     and (s.not_after is null or s.not_after > pg_catalog.clock_timestamp());
  if not found then
    return null;
  end if;

  mac := pg_catalog.sha256(key.outer_pad || pg_catalog.sha256(key.inner_pad ||
    pg_catalog.convert_to(pg_catalog.left(assertion, - pg_catalog.length(part[5]) - 1), 'UTF8')));
  -- Compared as text, so that there is one spelling of a mac only; and as hashes under the secret, so that the time
  -- the comparison takes says nothing about the right one.
  if pg_catalog.sha256(key.inner_pad || pg_catalog.convert_to(part[5], 'UTF8'))
     <> pg_catalog.sha256(key.inner_pad || pg_catalog.convert_to(
          pg_catalog.translate(pg_catalog.rtrim(pg_catalog.encode(mac, 'base64'), '='), '+/', '-_'), 'UTF8')) then
    return null;
  end if;

  -- From here on the text is ours. It must still have the one form that we write.
  if part[3] !~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' or part[4] !~ '^[1-9][0-9]{0,10}$' then
    return null;
  end if;
  -- The time of day, not of the transaction's start: a transaction cannot outlive its assertion.
  expires_in := part[4]::pg_catalog.int8 - extract(epoch from pg_catalog.clock_timestamp());
  if expires_in <= 0 or expires_in > 300 then
    return null;
  end if;
  return part[3]::pg_catalog.uuid;
end
$$;

-- The tenant of this transaction, for the policies. Raises 28000 when there is none that can be believed. Write
-- (select tenancy.tenant_id()) around it, so that a statement evaluates it once and not once a row.
create function tenancy.tenant_id() returns pg_catalog.uuid
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
declare
  tenant constant pg_catalog.uuid := tenancy.asserted_tenant();
begin
  -- The nil UUID is the platform's operator, who is not a tenant and owns no rows.
  if tenant is null or tenant = '00000000-0000-0000-0000-000000000000' then
    raise exception using errcode = '28000', message = 'tenant assertion refused';
  end if;
  return tenant;
end
$$;

-- True when the assertion of this transaction is the operator's; raises 28000 otherwise, also for every tenant.
create function tenancy.assert_operator() returns pg_catalog.bool
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
declare
  tenant constant pg_catalog.uuid := tenancy.asserted_tenant();
begin
  if tenant is null or tenant <> '00000000-0000-0000-0000-000000000000' then
    raise exception using errcode = '28000', message = 'tenant assertion refused';
  end if;
  return true;
end
$$;
