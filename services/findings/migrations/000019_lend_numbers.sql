-- Numbers of references that are free. A creation takes the lowest one that no other creation holds and gives it back where it
-- fails. So no creation holds a row of the tenant that others wait for.
create table findings.free_number (
  tenant_id uuid not null,
  series text not null,
  year integer not null,
  number integer not null,
  constraint free_number_pk primary key (tenant_id, series, year, number),
  constraint free_number_series_known check (series in ('finding', 'action_plan')),
  constraint free_number_positive check (number > 0)
);
comment on table findings.free_number is
  'Numbers up to that of the counter that no finding or action plan has yet. They are added before a creation begins.';
comment on table findings.reference_counter is
  'The last number of F-<year>-<number> that is used or free, one row a tenant and year.';
comment on table findings.action_plan_counter is
  'The last number of AP-<year>-<number> that is used or free, one row a tenant and year.';

call tenancy.protect_table('findings.free_number', 'postern_findings', array['select', 'insert', 'update', 'delete']);
