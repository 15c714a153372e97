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

-- Whether an assertion, v1.<key id>.<tenant>.<expiry in Unix seconds>.<mac>, was made with the key of these pads and is
-- valid now; null or false when not, also for null and for text of any other form. It says nothing about why.
-- HOT PATH: one expression, which the planner writes into its caller. No regular expression: one costs as much as all
-- the rest, and what has our mac has our form. A mac is right in one spelling only, its last character included, because
-- the text is compared as a whole; and as hashes under the secret, so that the time it takes tells nothing about the
-- right one.
create function tenancy.is_valid(assertion text, inner_pad bytea, outer_pad bytea) returns boolean
language sql
stable
parallel safe
return case
  when octet_length(assertion) <= 128
       and starts_with(assertion, 'v1.')
       and sha256(inner_pad || convert_to(assertion, 'UTF8'))
           = sha256(inner_pad || convert_to(left(assertion, -44) || '.' || translate(encode(
               sha256(outer_pad || sha256(inner_pad || convert_to(left(assertion, -44), 'UTF8'))),
             'base64'), '+/=', '-_'), 'UTF8'))
  -- The time at which this statement came, not the transaction's start: a transaction does not outlive its assertion.
  then split_part(assertion, '.', 4)::bigint - extract(epoch from statement_timestamp()) > 0
       and split_part(assertion, '.', 4)::bigint - extract(epoch from statement_timestamp()) <= 300
end;

-- The tenant of this transaction, for the policies. Raises 28000 when there is none that can be believed. Write
-- (select tenancy.tenant_id()) around it, so that a statement evaluates it once and not once a row.
create function tenancy.tenant_id() returns uuid
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  -- The nil UUID is the platform's operator, who is not a tenant and owns no rows.
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) <> '00000000-0000-0000-0000-000000000000' then
    return pg_catalog.split_part(assertion, '.', 3)::pg_catalog.uuid;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$$;

-- True when the assertion of this transaction is the operator's; raises 28000 otherwise, also for every tenant.
create function tenancy.assert_operator() returns boolean
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) = '00000000-0000-0000-0000-000000000000' then
    return true;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$$;
