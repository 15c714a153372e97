-- A legal hold: as long as it lasts nothing is purged, however long its retention has been over. It can be set and lifted again
-- and again; each time is a row, and the last one counts.

create table evidence.legal_hold (
  tenant_id uuid not null,
  file_id uuid not null,
  number integer not null,
  kind text not null,
  reason text not null,
  decided_at timestamptz(3) not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint legal_hold_pk primary key (tenant_id, file_id, number),
  constraint legal_hold_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint legal_hold_number_positive check (number > 0),
  constraint legal_hold_in_turn check (kind = case number % 2 when 1 then 'set' else 'lifted' end),
  constraint legal_hold_reason_length check (char_length(reason) between 1 and 2000),
  constraint legal_hold_by_person check (decided_by_type in ('user', 'operator'))
);
comment on table evidence.legal_hold is 'Legal holds on files, set and lifted in turn. Append-only: no role may update or delete.';

create function evidence.guard_legal_hold() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- One decision about a file at a time: what is purged or held meanwhile is seen by the statements below.
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  if new.number <> 1 + (
    select coalesce(max(h.number), 0)
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
  ) then
    raise exception 'holds are set and lifted in turn' using errcode = '23514', constraint = 'legal_hold_in_turn';
  end if;
  if new.kind = 'set' and exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) then
    raise exception 'what is purged cannot be held' using errcode = '23514', constraint = 'legal_hold_of_kept';
  end if;
  return new;
end
$$;

create trigger legal_hold_guard before insert on evidence.legal_hold
  for each row execute function evidence.guard_legal_hold();
create trigger legal_hold_never_changes before update or delete on evidence.legal_hold
  for each row execute function tenancy.refuse_change();
create trigger legal_hold_is_never_emptied before truncate on evidence.legal_hold
  for each statement execute function tenancy.refuse_change();

create or replace function evidence.guard_file_decision() returns trigger
language plpgsql set search_path = ''
as $$
declare
  found_scan text;
  kept_until date;
begin
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  select f.scan, coalesce(f.retention_until, ((f.received_at at time zone 'UTC') + interval '7 years')::date)
  into found_scan, kept_until
  from evidence.file f
  where f.tenant_id = new.tenant_id and f.id = new.file_id;
  if new.kind = 'released' and found_scan is distinct from 'infected' then
    raise exception 'only what is in quarantine can be released' using errcode = '23514', constraint = 'file_decision_of_quarantined';
  end if;
  if new.kind = 'purged' and ((now() at time zone 'UTC')::date > kept_until) is not true then
    raise exception 'the file is still to be kept' using errcode = '23514', constraint = 'file_decision_after_retention';
  end if;
  if new.kind = 'purged' and (
    select h.kind
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
    order by h.number desc
    limit 1
  ) = 'set' then
    raise exception 'the file is under a legal hold' using errcode = '23514', constraint = 'file_decision_without_hold';
  end if;
  return new;
end
$$;

-- contract: a kind that was never written goes, and one comes; the release before writes those that it knows.
alter table evidence.custody_event
  drop constraint custody_event_kind_known,
  add constraint custody_event_kind_known check (
    kind in (
      'upload_begun', 'upload_given_up',
      'received', 'hashed', 'scanned', 'quarantined', 'attached', 'released',
      'viewed', 'legal_hold_set', 'legal_hold_lifted', 'purged'
    )
  );

call tenancy.protect_table('evidence.legal_hold', 'postern_evidence', array['select', 'insert']);
