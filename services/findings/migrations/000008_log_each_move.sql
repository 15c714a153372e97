-- What a move of a status needs besides the row itself: it stands in the tracker log, in the transaction of the move, with
-- a reason or a note where the move needs one, and with evidence where the finding is serious.

-- INVARIANT: no status moves without its entry in the log. Deferred, because the log is written last in a transaction.
create function findings.guard_logged_move() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
  -- Moves that say enough by themselves.
  is_plain boolean := true;
  needs_evidence boolean := false;
  finding uuid := new.id;
  plan uuid;
  recommendation uuid;
  logged record;
begin
  case tg_table_name
    when 'finding' then
      is_plain := (old.status, new.status) in (
        ('draft', 'open'), ('open', 'in_remediation'), ('in_remediation', 'pending_validation')
      ) or old.status = 'risk_accepted' and old.accepted_until < (now() at time zone 'UTC')::date;
    when 'action_plan' then
      finding := new.finding_id;
      plan := new.id;
      is_plain := (old.status, new.status) in (
        ('proposed', 'approved'), ('approved', 'in_progress'), ('implemented', 'verified')
      );
      needs_evidence := new.status = 'verified' and exists (
        select from findings.finding f
        where f.tenant_id = new.tenant_id and f.id = new.finding_id and f.severity in ('critical', 'high')
      );
    when 'recommendation' then
      finding := new.finding_id;
      recommendation := new.id;
  end case;

  -- tracker_log_seq_unique
  select count(*) > 0 as is_there,
    coalesce(bool_or(btrim(coalesce(l.entry::jsonb ->> 'body', '')) <> ''), false) as says_why,
    coalesce(bool_or(l.has_evidence), false) as has_evidence
    into logged
    from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = finding
      and l.recorded_at = now()::timestamptz(3)
      and (plan is null or l.action_plan_id = plan)
      and (recommendation is null or l.recommendation_id = recommendation)
      and l.entry::jsonb -> 'changes' @> jsonb_build_array(
        jsonb_build_object('field', 'status', 'from', old.status, 'to', new.status));

  if not logged.is_there then
    broken := tg_table_name || '_move_logged';
  elsif not is_plain and not logged.says_why then
    broken := tg_table_name || '_move_has_reason';
  elsif needs_evidence and not logged.has_evidence then
    broken := 'action_plan_verified_with_evidence';
  end if;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = tg_table_name, constraint = broken,
      message = 'the log does not say what this move of a status needs';
  end if;
  return null;
end
$$;

create constraint trigger finding_logged_move after update of status on findings.finding
  deferrable initially deferred
  for each row when (new.status <> old.status) execute function findings.guard_logged_move();
create constraint trigger action_plan_logged_move after update of status on findings.action_plan
  deferrable initially deferred
  for each row when (new.status <> old.status) execute function findings.guard_logged_move();
create constraint trigger recommendation_logged_move after update of status on findings.recommendation
  deferrable initially deferred
  for each row when (new.status <> old.status) execute function findings.guard_logged_move();

-- INVARIANT: what is serious is closed only where its log names evidence, written with the closing or before it.
create function findings.guard_closing_evidence() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  -- tracker_log_with_evidence
  if not exists (
    select from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.id and l.has_evidence
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_closed_with_evidence',
      message = 'a critical or high finding is closed with evidence';
  end if;
  return null;
end
$$;

create constraint trigger finding_closing_evidence after update of status on findings.finding
  deferrable initially deferred
  for each row
  when (new.status = 'closed' and old.status <> 'closed' and new.severity in ('critical', 'high'))
  execute function findings.guard_closing_evidence();

-- INVARIANT: nothing is planned or recommended about a finding that is cancelled, and what was stays as it is.
create function findings.guard_part_of_cancelled() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if exists (
    select from findings.finding f
    where f.tenant_id = new.tenant_id and f.id = new.finding_id and f.status = 'cancelled'
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = tg_table_name, constraint = 'finding_cancelled_is_final',
      message = 'a cancelled finding never changes';
  end if;
  return new;
end
$$;

create trigger action_plan_guard_cancelled before insert or update on findings.action_plan
  for each row execute function findings.guard_part_of_cancelled();
create trigger recommendation_guard_cancelled before insert or update on findings.recommendation
  for each row execute function findings.guard_part_of_cancelled();

-- INVARIANT: a recommendation that live plans carry out is as far as they are.
create function findings.guard_carried_out() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  live integer;
  implemented integer;
  verified integer;
begin
  -- action_plan_recommendation_by_recommendation, action_plan_pk
  select count(*),
    count(*) filter (where p.status in ('implemented', 'verified')),
    count(*) filter (where p.status = 'verified')
    into live, implemented, verified
    from findings.action_plan_recommendation link
    join findings.action_plan p on p.tenant_id = link.tenant_id and p.id = link.action_plan_id
    where link.tenant_id = new.tenant_id and link.recommendation_id = new.id
      and p.status not in ('rejected', 'cancelled');
  if new.status = 'implemented' and implemented < live
    or new.status = 'verified' and verified < live
    or old.status = 'implemented' and new.status = 'accepted' and implemented = live
  then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'recommendation',
      constraint = 'recommendation_follows_plans',
      message = 'a recommendation follows the plans that carry it out';
  end if;
  return new;
end
$$;

create trigger recommendation_guard_carried_out before update of status on findings.recommendation
  for each row when (new.status <> old.status and new.status in ('accepted', 'implemented', 'verified'))
  execute function findings.guard_carried_out();
