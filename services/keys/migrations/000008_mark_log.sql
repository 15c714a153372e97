-- The log of changes says which log it is. A server that took over without the last entries gives their numbers again: a gateway
-- that had them would take the new ones for known. The mark is the hash of all entries up to a number, from a random beginning
-- on: the same number with the same mark is the same log.
-- suits the running release: it reads and gives no marks, and its changes are marked by the trigger. What it calls stays.

alter table keys.revocation_seq add column mark text not null
  default pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.gen_random_uuid()::text, 'UTF8')), 'hex');
comment on column keys.revocation_seq.mark is
  'SHA-256, in hex, of the mark before and the last entry: "mark seq kind hash-or-tenant version revoked", in UTF-8';
alter table keys.revocation add column mark_before text;
comment on column keys.revocation.mark_before is 'the mark up to the entry before; null where it was made before logs were marked';

-- Only who owns a function replaces it, and he may create nothing otherwise.
grant create on schema keys to postern_keys_definer;
set local role postern_keys_definer;

create or replace function keys.log_change() returns trigger
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

set local role postern_owner;
revoke create on schema keys from postern_keys_definer;

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

-- Grants or renews the lease of a gateway whose cursor is the end of this log. One without a mark is believed.
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

call tenancy.give_function('keys.mark_at(bigint)', 'postern_keys_definer', array[]::name[]);
call tenancy.give_function('keys.grant_lease(uuid, text, bigint, text, integer)', 'postern_keys_definer', array['postern_keys']);
call tenancy.give_function('keys.follow_log(bigint, text, integer)', 'postern_keys_definer', array['postern_keys']);
