-- Findings and action plans that become overdue appear in the change feed of every tenant.
-- suits the running release: the function that it calls keeps its name and its arguments.
-- holds up writes: one scan of each table, and the indexes contain unfinished rows only.
-- contract: only the function that is replaced here used findings.overdue_scan.

-- Begins with the date, because the schedule looks through all tenants at once.
create index finding_becoming_overdue on findings.finding (target_on, tenant_id, id)
  where status not in ('closed', 'risk_accepted', 'cancelled') and overdue_on is distinct from target_on;
create index action_plan_becoming_overdue on findings.action_plan (due_on, tenant_id, id)
  where status not in ('verified', 'rejected', 'cancelled', 'implemented') and overdue_on is distinct from due_on;

-- Gives what became overdue a new version, once for a date, as the API shows it in UTC. At most 1,000 of each in a call.
drop function findings.note_overdue();
create function findings.note_overdue() returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  today constant pg_catalog.date := (pg_catalog.now() at time zone 'UTC')::pg_catalog.date;
begin
  -- finding_becoming_overdue
  with due as (
    select f.tenant_id, f.id
      from findings.finding as f
     where f.status not in ('closed', 'risk_accepted', 'cancelled')
       and f.overdue_on is distinct from f.target_on
       and f.target_on < today
     order by f.target_on, f.tenant_id, f.id
     limit 1000
       for update skip locked
  ), late as (
    update findings.finding as f
       set updated_at = pg_catalog.now(),
           version = f.version + 1
      from due
     where f.tenant_id = due.tenant_id
       and f.id = due.id
    returning f.tenant_id, f.id, f.target_on
  )
  insert into findings.overdue_notice (tenant_id, kind, resource_id, due_on)
  select late.tenant_id, 'finding', late.id, late.target_on
    from late
    join tenancy.list_event_readers() as r on r.tenant_id = late.tenant_id
   where late.target_on >= (r.since at time zone 'UTC')::pg_catalog.date
      on conflict do nothing;

  -- action_plan_becoming_overdue
  with due as (
    select p.tenant_id, p.id
      from findings.action_plan as p
     where p.status not in ('verified', 'rejected', 'cancelled', 'implemented')
       and p.overdue_on is distinct from p.due_on
       and p.due_on < today
     order by p.due_on, p.tenant_id, p.id
     limit 1000
       for update skip locked
  ), late as (
    update findings.action_plan as p
       set updated_at = pg_catalog.now(),
           version = p.version + 1
      from due
     where p.tenant_id = due.tenant_id
       and p.id = due.id
    returning p.tenant_id, p.id, p.due_on
  )
  insert into findings.overdue_notice (tenant_id, kind, resource_id, due_on)
  select late.tenant_id, 'action_plan', late.id, late.due_on
    from late
    join tenancy.list_event_readers() as r on r.tenant_id = late.tenant_id
   where late.due_on >= (r.since at time zone 'UTC')::pg_catalog.date
      on conflict do nothing;
end
$$;
call tenancy.give_function('findings.note_overdue()', 'postern_findings_definer', array['postern_findings']);

drop table findings.overdue_scan;
