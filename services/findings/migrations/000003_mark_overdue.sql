-- Findings and action plans know with which date they became overdue, for the change feed.
-- suits the running release: it writes none of the new columns, and the triggers refuse nothing.

alter table findings.finding add column overdue_on date;
comment on column findings.finding.overdue_on is 'The target date with which the finding last became overdue';
alter table findings.action_plan add column overdue_on date;
comment on column findings.action_plan.overdue_on is 'The due date with which the plan last became overdue';

-- INVARIANT: what is written while it is overdue is not changed a second time by the schedule.
create function findings.mark_overdue() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  today constant pg_catalog.date := (pg_catalog.now() at time zone 'UTC')::pg_catalog.date;
begin
  case tg_table_name
    when 'finding' then
      if new.target_on < today and new.status not in ('closed', 'risk_accepted', 'cancelled') then
        new.overdue_on := new.target_on;
      end if;
    when 'action_plan' then
      if new.due_on < today and new.status not in ('verified', 'rejected', 'cancelled', 'implemented') then
        new.overdue_on := new.due_on;
      end if;
  end case;
  return new;
end
$$;
create trigger finding_mark_overdue before insert or update on findings.finding
  for each row execute function findings.mark_overdue();
create trigger action_plan_mark_overdue before insert or update on findings.action_plan
  for each row execute function findings.mark_overdue();

call tenancy.admit_definer('findings.finding', 'postern_findings_definer', array['select', 'update']);
call tenancy.admit_definer('findings.action_plan', 'postern_findings_definer', array['select', 'update']);
