-- What of the log is old is told by the monotonic clock of the replica that drops it, and by no wall clock: PostgreSQL's, ahead
-- for a moment, would make entries old that records in Redis are older than; and one that was behind when an entry was made
-- would make it old from the first.
-- suits the running release: its keys.prune drops nothing any more, and its keys.read_log gives all that the log holds, whatever
-- age it asks for; the log is pruned by replicas of this release alone.

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

-- Only who owns a function replaces it, and he may create nothing otherwise.
grant create on schema keys to postern_keys_definer;
set local role postern_keys_definer;

-- The release before calls it with an age, and takes any number.
create or replace function keys.prune(older_than_ms bigint, at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  select 0
$$;

-- Every gateway asks for it twice a second: what comes after a cursor is found by the index. `since_ms` means nothing any more.
create or replace function keys.read_log(cursor_seq bigint, since_ms bigint, at_most integer)
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
      from keys.revocation as r
     where r.seq > (select case when cursor_seq is null or start.reset then 0 else cursor_seq end from start)
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

set local role postern_owner;
revoke create on schema keys from postern_keys_definer;
