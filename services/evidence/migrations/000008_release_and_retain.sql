-- What becomes of a file later, by decision of a person: it is released from quarantine, or purged when its time is over. The
-- row of the file never changes: the decision is said beside it.

alter table evidence.file
  add column retention_until date,
  add constraint file_retention_follows_receipt check (retention_until > (received_at at time zone 'UTC')::date);
comment on column evidence.file.retention_until is 'Kept until then at least. Null for what came before there was a policy: seven years.';

-- Serves the list of what is in quarantine.
create index file_infected on evidence.file (tenant_id, id) where scan = 'infected';

create table evidence.file_decision (
  tenant_id uuid not null,
  file_id uuid not null,
  kind text not null,
  reason text not null,
  decided_at timestamptz(3) not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint file_decision_pk primary key (tenant_id, file_id, kind),
  constraint file_decision_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint file_decision_kind_known check (kind in ('released', 'purged')),
  constraint file_decision_reason_length check (char_length(reason) between 1 and 2000),
  constraint file_decision_by_person check (decided_by_type in ('user', 'operator'))
);
comment on table evidence.file_decision is 'What a person has decided about a file. Append-only: no role may update or delete.';

create function evidence.guard_file_decision() returns trigger
language plpgsql set search_path = ''
as $$
declare
  found_scan text;
  kept_until date;
begin
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
  return new;
end
$$;

create trigger file_decision_guard before insert on evidence.file_decision
  for each row execute function evidence.guard_file_decision();
create trigger file_decision_never_changes before update or delete on evidence.file_decision
  for each row execute function tenancy.refuse_change();
create trigger file_decision_is_never_emptied before truncate on evidence.file_decision
  for each statement execute function tenancy.refuse_change();

create table evidence.policy (
  tenant_id uuid not null,
  retention_years integer not null,
  version integer not null default 1,
  changed_at timestamptz(3) not null default clock_timestamp(),
  changed_by_type text not null,
  changed_by_id text not null,
  changed_by_label text not null,
  constraint policy_pk primary key (tenant_id),
  constraint policy_retention_years_range check (retention_years between 1 and 100),
  constraint policy_version_positive check (version > 0),
  constraint policy_by_person check (changed_by_type in ('user', 'operator'))
);
comment on table evidence.policy is 'How long a tenant keeps evidence, from the day of receipt. Without a row: seven years.';

-- contract: a tenant whose last file is purged keeps nothing; the release before writes no such row, and reads one as it is.
alter table evidence.tenant_usage
  drop constraint tenant_usage_positive,
  add constraint tenant_usage_not_negative check (bytes >= 0 and files >= 0);

-- contract: one kind of event more; the release before writes those that it knows.
alter table evidence.custody_event
  drop constraint custody_event_kind_known,
  add constraint custody_event_kind_known check (
    kind in (
      'upload_begun', 'upload_given_up',
      'received', 'hashed', 'scanned', 'quarantined', 'attached', 'released',
      'viewed', 'exported', 'legal_hold_set', 'purged'
    )
  );

call tenancy.protect_table('evidence.file_decision', 'postern_evidence', array['select', 'insert']);
call tenancy.protect_table('evidence.policy', 'postern_evidence', array['select', 'insert', 'update']);
