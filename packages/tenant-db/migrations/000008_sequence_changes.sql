-- Positions of the change feed are given to committed transactions, right behind their commit. So no writer holds a lock
-- of its tenant while it commits.
-- contract: services of the release before read positions as they are; they show a change once a service of this one has placed it.
-- suits the running release: it writes none of these rows itself, and the new check is weaker than the old one.

-- Where the write-ahead log was when the transaction ended: the order in which transactions get their positions. A
-- transaction that waited for another one ends behind it. Null while the transaction runs, and once it has a position.
alter table tenancy.change_batch
  add column ended_at pg_lsn,
  drop constraint change_batch_ends,
  add constraint change_batch_ends check (
    (made_by is null) = (committed_at is not null) and (position is not null or ended_at is not null) = (made_by is null)
  ) not valid;

-- holds up writes: no row has a value in the new column, so that the index is empty.
-- holds up readers: the same; the table is read through once, for 30 days of changes.
create index change_batch_unplaced on tenancy.change_batch (tenant_id, ended_at) where ended_at is not null;

-- Gives up to `most` committed transactions of a tenant their positions, in the order in which they ended, and removes
-- what is older than 30 days. Returns whether more may be left. The caller holds the lock of the tenant's feed.
create function tenancy.place_changes(tenant pg_catalog.uuid, most pg_catalog.int4) returns pg_catalog.bool
language plpgsql
set search_path = ''
as $$
declare
  last pg_catalog.int8;
  placed pg_catalog.int8;
  pruned pg_catalog.int8;
begin
  insert into tenancy.change_head as h (tenant_id, last_position) values (tenant, 0) on conflict (tenant_id) do nothing;
  select h.last_position into last from tenancy.change_head as h where h.tenant_id = tenant;

  -- change_batch_unplaced
  update tenancy.change_batch as b
     set position = last + next.number,
         ended_at = null
    from (select u.id, pg_catalog.row_number() over (order by u.ended_at, u.id) as number
            from tenancy.change_batch as u
           where u.tenant_id = tenant
             and u.made_by is null
             and u.ended_at is not null
           order by u.ended_at, u.id
           limit most) as next
   where b.tenant_id = tenant
     and b.id = next.id;
  get diagnostics placed = row_count;

  with expired as (
    select oldest.id, oldest.position
      from (select b.id, b.position, b.committed_at
              from tenancy.change_batch as b
             where b.tenant_id = tenant
               and b.position is not null
             order by b.position
             limit greatest(20, 2 * placed)) as oldest
     where oldest.committed_at < pg_catalog.clock_timestamp() - interval '30 days'
  ), forgotten as (
    delete from tenancy.change as c using expired where c.tenant_id = tenant and c.batch_id = expired.id
  ), gone as (
    delete from tenancy.change_batch as b using expired where b.tenant_id = tenant and b.id = expired.id
  )
  select pg_catalog.max(expired.position) into pruned from expired;

  if placed > 0 or pruned is not null then
    update tenancy.change_head as h
       set last_position = last + placed,
           pruned_position = coalesce(pruned, h.pruned_position)
     where h.tenant_id = tenant;
  end if;
  return placed = most;
end
$$;
grant execute on function tenancy.place_changes(uuid, integer) to postern_tenancy;

-- Places what is committed of the tenant of the assertion. Returns whether more may be left.
-- INVARIANT: a reader that has seen a position never finds a new change at or below it. Only one transaction at a time
-- places changes of a tenant; it places what is committed already, and each statement of it sees what the one before it
-- has committed.
create function tenancy.sequence_changes() returns pg_catalog.bool
language plpgsql
security definer
set search_path = ''
as $$
declare
  tenant constant pg_catalog.uuid := tenancy.tenant_id();
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenancy.change ' || tenant::pg_catalog.text, 0));
  perform from tenancy.change_batch as b where b.tenant_id = tenant and b.made_by is null and b.ended_at is not null limit 1;
  return found and tenancy.place_changes(tenant, 1000);
end
$$;

-- Ends the batch of a transaction, at its commit. Waits for nobody.
create function tenancy.end_changes() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  oldest pg_catalog.timestamptz;
begin
  update tenancy.change_batch as b
     set made_by = null,
         ended_at = pg_catalog.pg_current_wal_insert_lsn(),
         committed_at = pg_catalog.clock_timestamp()
   where b.tenant_id = new.tenant_id
     and b.id = new.id;

  -- Where nobody reads the feed, a commit places what has waited for a minute, unless another one does so already.
  -- change_batch_unplaced
  select b.committed_at
    into oldest
    from tenancy.change_batch as b
   where b.tenant_id = new.tenant_id
     and b.ended_at is not null
   order by b.ended_at
   limit 1;
  if oldest < pg_catalog.clock_timestamp() - interval '1 minute'
    and pg_catalog.pg_try_advisory_xact_lock(
      pg_catalog.hashtextextended('tenancy.change ' || new.tenant_id::pg_catalog.text, 0))
  then
    perform tenancy.place_changes(new.tenant_id, 500);
  end if;
  return null;
end
$$;

drop trigger position_changes on tenancy.change_batch;
drop function tenancy.position_changes();
create constraint trigger end_changes after insert on tenancy.change_batch
  deferrable initially deferred
  for each row execute function tenancy.end_changes();

call tenancy.give_function('tenancy.sequence_changes()', 'postern_tenancy', array['postern_findings']::name[]);
call tenancy.give_function('tenancy.end_changes()', 'postern_tenancy', array[]::name[]);
