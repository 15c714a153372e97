-- What an auditor makes of a file: it is reviewed, or rejected, once. A file of which there is a newer version is superseded:
-- that follows from the newer one, and has no row of its own.

alter table evidence.file_decision
  drop constraint file_decision_kind_known,
  add constraint file_decision_kind_known check (kind in ('released', 'reviewed', 'rejected', 'purged'));

-- A verdict is one of the two, and stands.
create unique index file_decision_one_verdict on evidence.file_decision (tenant_id, file_id) where kind in ('reviewed', 'rejected');

create function evidence.guard_verdict() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- file_decision_guard, whose name comes first, has taken the lock of the file's decisions.
  if exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) or exists (
    select from evidence.file f
    where f.tenant_id = new.tenant_id and f.version_of = new.file_id
  ) or exists (
    select from evidence.file f
    where f.tenant_id = new.tenant_id and f.id = new.file_id and f.scan = 'infected'
      and not exists (
        select from evidence.file_decision d
        where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind = 'released'
      )
  ) then
    raise exception 'only what is accepted or released can be judged' using errcode = '23514', constraint = 'file_decision_of_accepted';
  end if;
  return new;
end
$$;

create trigger file_decision_guard_verdict before insert on evidence.file_decision
  for each row when (new.kind in ('reviewed', 'rejected')) execute function evidence.guard_verdict();

-- contract: two kinds of event more; the release before writes those that it knows.
alter table evidence.custody_event
  drop constraint custody_event_kind_known,
  add constraint custody_event_kind_known check (
    kind in (
      'upload_begun', 'upload_given_up',
      'received', 'hashed', 'scanned', 'quarantined', 'attached', 'released', 'reviewed', 'rejected',
      'viewed', 'legal_hold_set', 'legal_hold_lifted', 'purged'
    )
  );
