-- What of the log is old is told by the monotonic clock of the replica that drops it, and by no wall clock: PostgreSQL's, ahead
-- for a moment, would make entries old that records in Redis are older than; and one that was behind when an entry was made
-- would make it old from the first.

-- Drops log entries up to a number, from the oldest on, so that none is missing between two that are there. Gives where the log
-- stands. The release before calls keys.prune.
create function keys.prune_log(up_to bigint, at_most integer) returns bigint
language sql
security definer
set search_path = ''
as $$
  with log as (
    select c.seq
      from keys.revocation_seq as c
     where c.single),
  dropped as (
    delete from keys.revocation as r
     where r.seq in (
             select o.seq
               from keys.revocation as o, log
              where o.seq <= up_to
                -- Of a database that was restored the numbers are others.
                and up_to <= log.seq
              order by o.seq
              limit at_most))
  select log.seq from log
$$;

call tenancy.give_function('keys.prune_log(bigint, integer)', 'postern_keys_definer', array['postern_keys']);
