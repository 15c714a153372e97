-- The most severe first, and among them those that are due first: both columns ascend, so that one index and one comparison
-- of rows lead to any page of that order, and of its reverse.
alter table findings.finding
  add column severity_order smallint not null generated always as (
    case severity when 'critical' then 1 when 'high' then 2 when 'medium' then 3 else 4 end
  ) stored;
comment on column findings.finding.severity_order is 'The reverse of severity_rank: critical is 1.';

create index finding_by_severity_and_target on findings.finding (tenant_id, severity_order, target_on, id);
