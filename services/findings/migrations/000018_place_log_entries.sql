-- Entries of the tracker log get their position and root right behind their commit. So no writer holds the end of the
-- tenant's log while it commits. The chain of a finding is still continued in the transaction of the change.
-- suits the running release: it gives each entry its position itself, which is accepted while no entry waits for one.

-- Where the write-ahead log was when the entry was written: the order in which entries get their places. A transaction that
-- has waited for another one writes behind it. Null once the entry is placed.
alter table findings.tracker_log add column arrived_at pg_lsn;
comment on column findings.tracker_log.position is
  'Counts the entries of the tenant in the order of their commits. Some negative number while an entry waits for its place.';
comment on column findings.tracker_log.root is
  'SHA-256 over the root before (at first 64 zeros) and the hash, both as text. Empty while the entry waits for its place.';

-- Placing an entry is no change of it.
drop trigger note_updates on findings.tracker_log;

-- The end of a tenant's log: nothing of a log without entries.
create function findings.log_end_of(tenant uuid, out "position" bigint, out root text)
  language sql
  stable
  set search_path = ''
as $$
  -- tracker_log_pk, backwards
  select l.position, l.root
  from findings.tracker_log l
  where l.tenant_id = tenant and l.position > 0
  order by l.position desc
  limit 1
$$;
grant execute on function findings.log_end_of(uuid) to postern_findings;

-- INVARIANT: an entry continues the chain of its finding, without a gap, and is hashed here, over the text that is stored.
create or replace function findings.chain_log_entry() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  entry constant jsonb := new.entry::jsonb;
  tenant_end record;
  finding_end record;
begin
  new.arrived_at := pg_current_wal_insert_lsn();
  new.root := '';
  select l.seq, l.hash
    into finding_end
    from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.finding_id
    order by l.seq desc
    limit 1;

  new.seq := coalesce(finding_end.seq, 0) + 1;
  -- Negative, so that tracker_log_pk finds what waits.
  new.position := -1 - (hashtextextended(new.finding_id::text || ' ' || new.seq, 0) & 9223372036854775807);
  new.action_plan_id := (entry ->> 'action_plan_id')::uuid;
  new.recommendation_id := (entry ->> 'recommendation_id')::uuid;
  new.kind := entry ->> 'kind';
  new.actor_type := entry -> 'actor' ->> 'type';
  new.actor_id := entry -> 'actor' ->> 'id';
  new.has_evidence := coalesce(jsonb_array_length(entry -> 'evidence_refs'), 0) > 0;
  new.recorded_at := now()::timestamptz(3);
  new.hash := encode(sha256(convert_to(new.entry, 'UTF8')), 'hex');

  -- A service of 1.0.0-beta.1 gives the position itself, and holds the end of the log until it commits.
  if entry ? 'position' then
    perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || new.tenant_id::text, 0));
    if exists (select from findings.tracker_log l where l.tenant_id = new.tenant_id and l.position < 0) then
      raise exception using errcode = 'serialization_failure', message = 'entries of the log wait for their place';
    end if;
    select * into tenant_end from findings.log_end_of(new.tenant_id);
    new.arrived_at := null;
    new.position := coalesce(tenant_end.position, 0) + 1;
    new.root := encode(
      sha256(convert_to(coalesce(tenant_end.root, repeat('0', 64)) || new.hash, 'UTF8')), 'hex');
  end if;

  if (entry ? 'position' and (entry ->> 'position')::bigint is distinct from new.position)
    or (entry ->> 'seq')::integer is distinct from new.seq
    or (entry ->> 'finding_id')::uuid is distinct from new.finding_id
    or entry ->> 'prev_hash' is distinct from finding_end.hash
    or (entry ->> 'recorded_at')::timestamptz is distinct from new.recorded_at
    or (entry ->> 'occurred_at')::timestamptz > new.recorded_at
    or (entry ->> 'corrects_seq')::integer >= new.seq
    or entry ? 'hash'
  then
    -- An assertion that is not believed is refused first, by the policy of the rows that are there.
    perform from findings.tracker_log l where l.tenant_id = new.tenant_id limit 1;
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'tracker_log', constraint = 'tracker_log_chain',
      message = 'the entry does not continue the log';
  end if;
  return new;
end
$$;

-- INVARIANT: an entry gets its position and root once, behind the last entry of the tenant and behind the one before it in its
-- finding; nothing else of it ever changes. Whoever places entries holds the end of the tenant's log until the commit.
create function findings.place_log_entry() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  tenant_end record;
begin
  new.position := old.position;
  if old.position > 0 or new is distinct from old then
    raise exception using
      errcode = '55000', schema = 'findings', table = 'tracker_log',
      message = 'rows of findings.tracker_log are never changed or deleted';
  end if;
  perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || new.tenant_id::text, 0));
  -- tracker_log_seq_unique
  if new.seq > 1 and not exists (
    select from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.finding_id and l.seq = new.seq - 1 and l.position > 0
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'tracker_log', constraint = 'tracker_log_chain',
      message = 'the entry before it in its finding is placed first';
  end if;
  select * into tenant_end from findings.log_end_of(new.tenant_id);
  new.position := coalesce(tenant_end.position, 0) + 1;
  new.arrived_at := null;
  new.root := encode(sha256(convert_to(coalesce(tenant_end.root, repeat('0', 64)) || new.hash, 'UTF8')), 'hex');
  return new;
end
$$;

drop trigger tracker_log_only_grows on findings.tracker_log;
create trigger tracker_log_only_grows before delete on findings.tracker_log
  for each row execute function tenancy.refuse_change();
create trigger tracker_log_places_once before update on findings.tracker_log
  for each row execute function findings.place_log_entry();

-- Places up to `most` committed entries of the tenant in the order of their arrival. Returns how many it placed.
create function findings.place_log_entries(most integer) returns integer
  language plpgsql
  set search_path = ''
as $$
declare
  waiting record;
  placed integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || tenancy.tenant_id()::text, 0));
  -- tracker_log_pk
  for waiting in
    select l.position from findings.tracker_log l where l.position < 0 order by l.arrived_at, l.seq limit most
  loop
    update findings.tracker_log l set position = 0 where l.position = waiting.position;
    placed := placed + 1;
  end loop;
  return placed;
end
$$;
grant execute on function findings.place_log_entries(integer) to postern_findings;

call tenancy.protect_table('findings.tracker_log', 'postern_findings', array['select', 'insert', 'update']);
revoke update on findings.tracker_log from postern_findings;
grant update (position) on findings.tracker_log to postern_findings;
