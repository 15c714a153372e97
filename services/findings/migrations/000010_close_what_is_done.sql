-- INVARIANT: a finding is closed only while every plan is done: one may have been refused, or proposed, since its validation
-- was asked for.
create function findings.guard_plans_done() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  -- action_plan_of_finding_unique
  if exists (
    select from findings.action_plan p
    where p.tenant_id = new.tenant_id and p.finding_id = new.id
      and p.status not in ('implemented', 'verified', 'rejected', 'cancelled')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding',
      constraint = 'finding_plans_done_before_closing',
      message = 'a finding is closed when its plans are done';
  end if;
  return new;
end
$$;

create trigger finding_guard_plans_done before update of status on findings.finding
  for each row when (new.status = 'closed' and old.status <> 'closed')
  execute function findings.guard_plans_done();
