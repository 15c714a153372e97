-- Findings, the entities they concern, and the counter behind their references.

create schema findings;

create table findings.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint reference_counter_pk primary key (tenant_id, year),
  constraint reference_counter_year_known check (year between 2000 and 9999),
  constraint reference_counter_positive check (last_number > 0)
);
comment on table findings.reference_counter is
  'The last number given out in F-<year>-<number>, one row a tenant and year. Moves in the transaction that uses it.';

create table findings.finding (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  year integer not null,
  number integer not null,
  reference text not null generated always as (
    'F-' || year::text || '-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
  external_id text,
  title text not null,
  condition text not null,
  criteria text,
  cause text,
  consequence text,
  corrective_action text,
  cause_category text,
  severity text not null,
  severity_rank smallint not null generated always as (
    case severity when 'critical' then 4 when 'high' then 3 when 'medium' then 2 else 1 end
  ) stored,
  type text not null,
  deficiency_class text,
  coso_component text,
  status text not null,
  owner jsonb,
  identified_on date not null,
  target_on date not null,
  closed_on date,
  reopened_count integer not null default 0,
  repeat_of_id uuid,
  source text,
  engagement_ref text,
  test_procedure_id uuid,
  management_response jsonb,
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint finding_pk primary key (tenant_id, id),
  constraint finding_number_unique unique (tenant_id, year, number),
  constraint finding_reference_unique unique (tenant_id, reference),
  constraint finding_external_id_unique unique (tenant_id, external_id),
  constraint finding_repeat_of_fk foreign key (tenant_id, repeat_of_id) references findings.finding (tenant_id, id),
  constraint finding_number_positive check (number > 0),
  constraint finding_external_id_length check (char_length(external_id) between 1 and 255),
  constraint finding_title_length check (char_length(title) between 1 and 255),
  constraint finding_condition_length check (char_length(condition) between 1 and 100000),
  constraint finding_criteria_length check (char_length(criteria) <= 100000),
  constraint finding_cause_length check (char_length(cause) <= 100000),
  constraint finding_consequence_length check (char_length(consequence) <= 100000),
  constraint finding_corrective_action_length check (char_length(corrective_action) <= 100000),
  constraint finding_engagement_ref_length check (char_length(engagement_ref) between 1 and 255),
  constraint finding_cause_category_known check (
    cause_category in ('people', 'process', 'system', 'governance', 'third_party', 'data', 'other')
  ),
  constraint finding_severity_known check (severity in ('critical', 'high', 'medium', 'low')),
  constraint finding_type_known check (
    type in ('control_deficiency', 'noncompliance', 'observation', 'exception', 'improvement')
  ),
  constraint finding_deficiency_class_known check (
    deficiency_class in ('deficiency', 'significant_deficiency', 'material_weakness')
  ),
  constraint finding_coso_component_known check (
    coso_component in (
      'control_environment', 'risk_assessment', 'control_activities', 'information_communication', 'monitoring'
    )
  ),
  constraint finding_status_known check (
    status in ('draft', 'open', 'in_remediation', 'pending_validation', 'closed', 'risk_accepted', 'cancelled')
  ),
  constraint finding_source_known check (
    source in ('internal_audit', 'external_audit', 'regulator', 'self_identified', 'monitoring', 'other')
  ),
  -- The last change has seen the date: no finding is identified after the day (UTC) on which it was written.
  constraint finding_identified_not_in_future check (identified_on <= (updated_at at time zone 'UTC')::date),
  constraint finding_identified_on_range check (identified_on >= date '1900-01-01'),
  constraint finding_target_on_range check (target_on between date '1900-01-01' and date '9999-12-31'),
  constraint finding_closed_on_when_closed check ((closed_on is not null) = (status = 'closed')),
  constraint finding_reopened_count_not_negative check (reopened_count >= 0),
  constraint finding_repeats_another check (repeat_of_id <> id),
  -- What leaves the draft says what is wrong, measured by what, why, with what effect, and who answers for it.
  constraint finding_criteria_before_open check (
    status in ('draft', 'cancelled') or btrim(coalesce(criteria, '')) <> ''
  ),
  constraint finding_cause_before_open check (
    status in ('draft', 'cancelled') or btrim(coalesce(cause, '')) <> ''
  ),
  constraint finding_consequence_before_open check (
    status in ('draft', 'cancelled') or btrim(coalesce(consequence, '')) <> ''
  ),
  constraint finding_owner_before_open check (status in ('draft', 'cancelled') or owner is not null),
  constraint finding_owner_is_object check (jsonb_typeof(owner) = 'object'),
  constraint finding_management_response_is_object check (jsonb_typeof(management_response) = 'object'),
  constraint finding_disagreement_has_reasons check (
    management_response ->> 'agreement' <> 'disagree' or btrim(coalesce(management_response ->> 'text', '')) <> ''
  ),
  constraint finding_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint finding_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint finding_version_positive check (version > 0)
);
comment on table findings.finding is 'A finding: condition, criteria, cause, consequence, corrective action, and its state.';
comment on column findings.finding.year is 'Year (UTC) in which the finding was documented; not that of identified_on.';
comment on column findings.finding.severity_rank is 'The order of severity, for sorting: critical is 4.';
comment on column findings.finding.created_at is 'Milliseconds, as clients see it, so that a page can begin exactly behind a row.';

-- Each sort of the list walks one of these, forwards or backwards, from where the page before has ended.
create index finding_by_created_at on findings.finding (tenant_id, created_at, id);
create index finding_by_updated_at on findings.finding (tenant_id, updated_at, id);
create index finding_by_target_on on findings.finding (tenant_id, target_on, id);
create index finding_by_severity on findings.finding (tenant_id, severity_rank, id);
-- Serves the foreign key and the question which findings repeat this one.
create index finding_by_repeat_of on findings.finding (tenant_id, repeat_of_id) where repeat_of_id is not null;

create table findings.finding_entity (
  tenant_id uuid not null,
  finding_id uuid not null,
  entity_id uuid not null,
  position smallint not null,
  constraint finding_entity_pk primary key (tenant_id, finding_id, entity_id),
  constraint finding_entity_position_unique unique (tenant_id, finding_id, position),
  constraint finding_entity_finding_fk foreign key (tenant_id, finding_id)
    references findings.finding (tenant_id, id),
  constraint finding_entity_position_range check (position between 1 and 50)
);
comment on table findings.finding_entity is
  'The auditable entities that a finding concerns, in the order in which they were named. The universe owns the entities.';

-- Serves the question which findings concern an entity.
create index finding_entity_by_entity on findings.finding_entity (tenant_id, entity_id, finding_id);

-- INVARIANT: what a finding is never changes, its version counts its changes, and its status moves along the state
-- machine alone, whoever writes.
create function findings.guard_finding() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    if new.status not in ('draft', 'open') then
      raise exception using
        errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_status_at_creation',
        message = 'a finding begins as draft or open';
    end if;
    return new;
  end if;

  if (new.tenant_id, new.id, new.year, new.number, new.created_at)
    is distinct from (old.tenant_id, old.id, old.year, old.number, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_identity_fixed',
      message = 'the identity and the origin of a finding never change';
  end if;

  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_version_counts',
      message = 'each change of a finding raises its version by one';
  end if;

  if new.status <> old.status and (old.status, new.status) not in (
    ('draft', 'open'),
    ('draft', 'cancelled'),
    ('open', 'in_remediation'),
    ('open', 'risk_accepted'),
    ('open', 'cancelled'),
    ('in_remediation', 'risk_accepted'),
    ('in_remediation', 'pending_validation'),
    ('in_remediation', 'cancelled'),
    ('pending_validation', 'closed'),
    ('pending_validation', 'in_remediation'),
    ('risk_accepted', 'open'),
    ('closed', 'open')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_status_transition',
      message = 'the status cannot move in this way';
  end if;

  return new;
end
$$;

create trigger finding_guard before insert or update on findings.finding
  for each row execute function findings.guard_finding();

-- INVARIANT: what leaves the draft names at least one entity. Deferred, because a finding is written before its links.
create function findings.guard_finding_has_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if not exists (
    select from findings.finding_entity link where link.tenant_id = new.tenant_id and link.finding_id = new.id
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_entity_before_open',
      message = 'a finding that is no draft names an entity';
  end if;
  return null;
end
$$;

create constraint trigger finding_entity_before_open after insert or update of status on findings.finding
  deferrable initially deferred
  for each row when (new.status not in ('draft', 'cancelled'))
  execute function findings.guard_finding_has_entity();

-- Findings are read and made; the right to change them comes with the routes that need it. Links are never taken away,
-- so that the rule above holds without a look at deletions.
call tenancy.protect_table('findings.reference_counter', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.protect_table('findings.finding', 'postern_findings', array['select', 'insert']);
call tenancy.protect_table('findings.finding_entity', 'postern_findings', array['select', 'insert']);
