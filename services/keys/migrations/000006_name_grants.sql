-- A lease is waited for by the clock of the replica that waits, and by no wall clock: one of PostgreSQL's that is set forward
-- would end leases that gateways still hold, and one set back would keep those of dead ones. What a replica needs is to see
-- whether a lease was granted again since it last looked.
-- suits the running release: it calls the same functions with the same meaning; what it does not know has a default.

alter table keys.gateway_lease
  add column grant_id uuid not null default pg_catalog.gen_random_uuid(),
  add column released boolean not null default false;
comment on column keys.gateway_lease.grant_id is 'another one with each grant, and never one that was: whether the lease was renewed';
comment on column keys.gateway_lease.lease_until is 'for people and the gauge; what a revoke waits for goes by no wall clock';

-- Every gateway that held a lease and is not forgotten: how far it has come, and which grant was its last.
create function keys.read_grants() returns table (gateway uuid, acked bigint, grant_id uuid, released boolean)
language sql
stable
security definer
set search_path = ''
as $$
  select l.gateway, l.acked, l.grant_id, l.released from keys.gateway_lease as l
$$;

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

do $$
declare
  routine text;
begin
  foreach routine in array array['keys.read_grants()', 'keys.forget_leases(uuid[], uuid[])']
  loop
    call tenancy.give_function(routine::regprocedure, 'postern_keys_definer', array['postern_keys']);
  end loop;
end
$$;

-- Only who owns a function replaces it, and he may create nothing otherwise.
grant create on schema keys to postern_keys_definer;
set local role postern_keys_definer;

create or replace function keys.renew_lease(for_gateway uuid, for_name text, cursor_seq bigint, lease_ms integer) returns boolean
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
     and cursor_seq <= (select c.seq from keys.revocation_seq as c where c.single);
  return false;
end
$$;

create or replace function keys.release_lease(for_gateway uuid) returns void
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

-- Drops log entries older than any cache can be, from the oldest on.
create or replace function keys.prune(older_than_ms bigint, at_most integer) returns integer
language sql
security definer
set search_path = ''
as $$
  with old as (
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

set local role postern_owner;
revoke create on schema keys from postern_keys_definer;
