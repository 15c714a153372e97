-- INVARIANT: where management has rejected all that was recommended, and nothing else is recommended in its place, a finding
-- is not remedied: its risk is accepted, or it stays open. Triggers run in the order of their names, after finding_guard.
create function findings.guard_rejected_recommendations() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if exists (
    select from findings.recommendation r
    where r.tenant_id = new.tenant_id and r.finding_id = new.id and r.status = 'rejected'
  ) and not exists (
    select from findings.recommendation r
    where r.tenant_id = new.tenant_id and r.finding_id = new.id and r.status not in ('rejected', 'superseded')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_recommendations_rejected',
      message = 'a finding of which every recommendation was rejected is not remedied';
  end if;
  return new;
end
$$;

create trigger finding_guard_rejected before update of status on findings.finding
  for each row when (new.status <> old.status and new.status in ('pending_validation', 'closed'))
  execute function findings.guard_rejected_recommendations();
