-- Findings and action plans that become overdue are events of webhooks.
-- suits the running release: it knows none of the tables.

call tenancy.admit_definer('findings.finding', 'postern_findings_definer', array['select']);
call tenancy.admit_definer('findings.action_plan', 'postern_findings_definer', array['select']);

-- Up to which day it was looked for, in tenants that send events to webhooks.
create table findings.overdue_scan (
  tenant_id uuid not null,
  scanned_on date not null,
  constraint overdue_scan_pk primary key (tenant_id)
);
call tenancy.admit_definer('findings.overdue_scan', 'postern_findings_definer', array['select', 'insert', 'update']);

create table findings.overdue_notice (
  tenant_id uuid not null,
  kind text not null,
  resource_id uuid not null,
  due_on date not null,
  noted_at timestamptz not null default now(),
  constraint overdue_notice_pk primary key (tenant_id, kind, resource_id, due_on),
  constraint overdue_notice_kind_known check (kind in ('finding', 'action_plan'))
);
call tenancy.admit_definer('findings.overdue_notice', 'postern_findings_definer', array['select', 'insert']);

create trigger notes_finding after insert on findings.overdue_notice for each row
  when (new.kind = 'finding') execute function tenancy.note_event('resource_id', 'finding.became_overdue');
create trigger notes_action_plan after insert on findings.overdue_notice for each row
  when (new.kind = 'action_plan') execute function tenancy.note_event('resource_id', 'action_plan.became_overdue');

-- Notes what became overdue since the last call, in UTC as the API shows it: once for each date.
create function findings.note_overdue() returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  scan record;
  today constant pg_catalog.date := (pg_catalog.now() at time zone 'UTC')::pg_catalog.date;
begin
  insert into findings.overdue_scan (tenant_id, scanned_on)
  select r.tenant_id, (r.since at time zone 'UTC')::pg_catalog.date from tenancy.list_event_readers() as r
      on conflict (tenant_id) do nothing;
  for scan in
    select s.tenant_id, greatest(s.scanned_on, (r.since at time zone 'UTC')::pg_catalog.date) as since
      from findings.overdue_scan as s
      join tenancy.list_event_readers() as r on r.tenant_id = s.tenant_id
     where s.scanned_on < today
     order by s.tenant_id
       for update of s skip locked
  loop
    -- finding_by_target_on, action_plan_by_due_on
    insert into findings.overdue_notice (tenant_id, kind, resource_id, due_on)
    select f.tenant_id, 'finding', f.id, f.target_on
      from findings.finding as f
     where f.tenant_id = scan.tenant_id
       and f.target_on >= scan.since
       and f.target_on < today
       and f.status not in ('closed', 'risk_accepted', 'cancelled')
        on conflict do nothing;
    insert into findings.overdue_notice (tenant_id, kind, resource_id, due_on)
    select p.tenant_id, 'action_plan', p.id, p.due_on
      from findings.action_plan as p
     where p.tenant_id = scan.tenant_id
       and p.due_on >= scan.since
       and p.due_on < today
       and p.status not in ('verified', 'rejected', 'cancelled', 'implemented')
        on conflict do nothing;
    update findings.overdue_scan as s set scanned_on = today where s.tenant_id = scan.tenant_id;
  end loop;
end
$$;
call tenancy.give_function('findings.note_overdue()', 'postern_findings_definer', array['postern_findings']);
