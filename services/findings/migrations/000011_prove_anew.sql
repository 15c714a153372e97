-- Each closing is proved anew; a finding about which somebody works is in remediation, also where the plan came first; and
-- what has to be said is more than white space.

-- Whether evidence was named for a finding since its remedy was last found wanting: since it was reopened, or its validation
-- failed. Reads the log of one finding (tracker_log_seq_unique).
create function findings.has_fresh_evidence(tenant uuid, finding uuid) returns boolean
  language sql
  stable
  set search_path = ''
as $$
  select exists (
    select from findings.tracker_log l
    where l.tenant_id = tenant and l.finding_id = finding and l.has_evidence
      and l.seq > coalesce((
        select max(setback.seq)
        from findings.tracker_log setback
        where setback.tenant_id = tenant and setback.finding_id = finding
          and (
            setback.entry::jsonb -> 'changes' @> '[{"field": "status", "from": "closed", "to": "open"}]'
            or setback.entry::jsonb -> 'changes'
              @> '[{"field": "status", "from": "pending_validation", "to": "in_remediation"}]'
          )
      ), 0)
  )
$$;
-- The service asks before it moves, and the trigger asks with its rights.
grant execute on function findings.has_fresh_evidence(uuid, uuid) to postern_findings;

-- INVARIANT: what is serious is closed only where its log names evidence of this remedy, written with the closing or before it.
create or replace function findings.guard_closing_evidence() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if not findings.has_fresh_evidence(new.tenant_id, new.id) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_closed_with_evidence',
      message = 'a critical or high finding is closed with evidence';
  end if;
  return null;
end
$$;

-- INVARIANT: a finding that has become open, or a plan of which was approved, does not stay open while work on a plan is
-- under way. Deferred, because the two moves follow each other in a transaction.
create function findings.guard_remediation_under_way() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  about constant uuid := case tg_table_name when 'finding' then new.id else (to_jsonb(new) ->> 'finding_id')::uuid end;
begin
  -- finding_pk, action_plan_of_finding_unique
  if exists (
    select from findings.finding f
    join findings.action_plan p on p.tenant_id = f.tenant_id and p.finding_id = f.id
    where f.tenant_id = new.tenant_id and f.id = about and f.status = 'open'
      and p.status in ('approved', 'in_progress', 'blocked')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = tg_table_name,
      constraint = 'finding_in_remediation_with_plan', message = 'a finding with an approved plan is in remediation';
  end if;
  return null;
end
$$;

create constraint trigger finding_remediation_under_way after update of status on findings.finding
  deferrable initially deferred
  for each row when (new.status = 'open' and old.status <> 'open')
  execute function findings.guard_remediation_under_way();
create constraint trigger action_plan_remediation_under_way after update of status on findings.action_plan
  deferrable initially deferred
  for each row when (new.status = 'approved' and old.status <> 'approved')
  execute function findings.guard_remediation_under_way();

-- INVARIANT: the condition says something when it is written, and when a draft is opened. No check of the table: what was
-- written before stays, and can still be moved.
create function findings.guard_condition() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'INSERT' or new.condition <> old.condition or old.status = 'draft' and new.status = 'open' then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_condition_said',
      message = 'the condition of a finding says something';
  end if;
  return new;
end
$$;

create trigger finding_guard_condition before insert or update on findings.finding
  for each row when (new.condition ~ '^\s+$') execute function findings.guard_condition();

-- Rows that are there are not looked at, and none of them changes: extensions only grow.
alter table findings.action_plan_extension
  add constraint action_plan_extension_reason_said check (reason ~ '\S') not valid;
