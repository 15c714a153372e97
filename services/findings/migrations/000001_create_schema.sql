-- Findings, their recommendations and action plans, and the tamper-evident log of their changes.

create schema findings;

-- Whether two references certainly name two people. If both have an id or both have an address, these decide; otherwise the
-- names do. False if nothing can be compared.
create function findings.is_another_person(a jsonb, b jsonb) returns boolean
  language sql
  immutable
  parallel safe
  set search_path = ''
as $$
  select case
    when a ->> 'person_id' = b ->> 'person_id' or lower(a ->> 'email') = lower(b ->> 'email') then false
    when a ->> 'person_id' <> b ->> 'person_id' or lower(a ->> 'email') <> lower(b ->> 'email') then true
    else coalesce(
      lower(regexp_replace(btrim(a ->> 'name'), '\s+', ' ', 'g'))
        <> lower(regexp_replace(btrim(b ->> 'name'), '\s+', ' ', 'g')),
      false)
  end
$$;
grant execute on function findings.is_another_person(jsonb, jsonb) to postern_findings;

create table findings.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint reference_counter_pk primary key (tenant_id, year),
  constraint reference_counter_year_known check (year between 2000 and 9999),
  constraint reference_counter_positive check (last_number > 0)
);
comment on table findings.reference_counter is
  'The last number of F-<year>-<number> that is used or free, one row a tenant and year.';

call tenancy.protect_table('findings.reference_counter', 'postern_findings', array['select', 'insert', 'update']);

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
  accepted_until date,
  accepted_by jsonb,
  validated_by jsonb,
  -- The most severe first, and among them those that are due first: both columns ascend, so that one index and one comparison
  -- of rows lead to any page of that order, and of its reverse.
  severity_order smallint not null generated always as (
    case severity when 'critical' then 1 when 'high' then 2 when 'medium' then 3 else 4 end
  ) stored,
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
  constraint finding_identified_not_in_future
    check (identified_on <= (updated_at at time zone 'UTC')::date + 1),
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
  constraint finding_version_positive check (version > 0),
  constraint finding_accepted_by_is_object check (jsonb_typeof(accepted_by) = 'object'),
  constraint finding_validated_by_is_object check (jsonb_typeof(validated_by) = 'object'),
  constraint finding_acceptance_when_accepted check (
    (accepted_until is not null and accepted_by is not null) = (status = 'risk_accepted')
    and (accepted_until is null) = (accepted_by is null)
  ),
  constraint finding_validation_when_closed check ((validated_by is not null) = (status = 'closed'))
);
comment on table findings.finding is 'A finding: condition, criteria, cause, consequence, corrective action, and its state.';
comment on column findings.finding.year is 'Year (UTC) in which the finding was documented; not that of identified_on.';
comment on column findings.finding.severity_rank is 'The order of severity, for sorting: critical is 4.';
comment on column findings.finding.created_at is 'Milliseconds, as clients see it, so that a page can begin exactly behind a row.';
comment on column findings.finding.severity_order is 'The reverse of severity_rank: critical is 1.';
-- Each sort of the list walks one of these, forwards or backwards, from where the page before has ended.
create index finding_by_created_at on findings.finding (tenant_id, created_at, id);
create index finding_by_updated_at on findings.finding (tenant_id, updated_at, id);
create index finding_by_target_on on findings.finding (tenant_id, target_on, id);
create index finding_by_severity on findings.finding (tenant_id, severity_rank, id);
-- Serves the foreign key and the question which findings repeat this one.
create index finding_by_repeat_of on findings.finding (tenant_id, repeat_of_id) where repeat_of_id is not null;
-- Serves the search for acceptances that have run out.
create index finding_by_accepted_until on findings.finding (tenant_id, accepted_until) where status = 'risk_accepted';
create index finding_by_severity_and_target on findings.finding (tenant_id, severity_order, target_on, id);

-- INVARIANT: what a finding is never changes, its version counts its changes, and its status moves along the state
-- machine only, with what a move needs, whoever writes. A cancelled finding never changes.
create function findings.guard_finding() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
  today constant date := (now() at time zone 'UTC')::date;
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
    broken := 'finding_identity_fixed';
  elsif new.version <> old.version + 1 then
    broken := 'finding_version_counts';
  elsif old.status <> 'draft' and (new.identified_on, new.repeat_of_id) is distinct from (old.identified_on, old.repeat_of_id)
  then
    broken := 'finding_fixed_after_draft';
  elsif new.status <> old.status and (old.status, new.status) not in (
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
    broken := 'finding_status_transition';
  elsif old.status = 'cancelled' then
    broken := 'finding_cancelled_is_final';
  elsif new.reopened_count <> old.reopened_count + (old.status = 'closed' and new.status = 'open')::integer then
    broken := 'finding_reopened_count_counts';
  elsif old.status = 'closed' and new.status = 'open' and old.closed_on < (today - interval '12 months')::date then
    broken := 'finding_reopened_in_time';
  elsif new.status = 'risk_accepted' and new.accepted_until is distinct from old.accepted_until
    and new.accepted_until not between today and (today + interval '24 months')::date
  then
    broken := 'finding_accepted_until_range';
  elsif old.status = 'open' and new.status = 'in_remediation' and not exists (
    select from findings.action_plan p
    where p.tenant_id = new.tenant_id and p.finding_id = new.id and p.status not in ('rejected', 'cancelled')
  ) then
    broken := 'finding_remediation_has_plan';
  elsif old.status = 'in_remediation' and new.status = 'pending_validation' and exists (
    select from findings.action_plan p
    where p.tenant_id = new.tenant_id and p.finding_id = new.id
      and p.status not in ('implemented', 'verified', 'rejected', 'cancelled')
  ) then
    broken := 'finding_plans_done_before_validation';
  end if;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = broken,
      message = 'a finding cannot change in this way';
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

-- INVARIANT: if management rejected every recommendation, the finding is not remedied: its risk is accepted, or it stays open.
-- Triggers run in the order of their names, so this one runs after finding_guard.
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

-- INVARIANT: the person who validates is certainly not the owner, whenever either is named (four eyes).
create function findings.guard_four_eyes() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
begin
  case tg_table_name
    when 'finding' then
      if (new.owner, new.validated_by) is distinct from (old.owner, old.validated_by)
        and not findings.is_another_person(new.owner, new.validated_by)
      then
        broken := case when new.validated_by is distinct from old.validated_by
          then 'finding_validator_is_another' else 'finding_owner_is_another' end;
      end if;
    when 'action_plan' then
      if (new.owner, new.verified_by) is distinct from (old.owner, old.verified_by)
        and not findings.is_another_person(new.owner, new.verified_by)
      then
        broken := 'action_plan_verifier_is_another';
      end if;
  end case;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = tg_table_name, constraint = broken,
      message = 'who validates is not seen to be another than the owner';
  end if;
  return new;
end
$$;

create trigger finding_guard_four_eyes before update on findings.finding
  for each row when (new.validated_by is not null) execute function findings.guard_four_eyes();

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

-- INVARIANT: the condition is more than white space.
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

-- INVARIANT: what is serious is closed only where its log names evidence of this remedy, written with the closing or before it.
create function findings.guard_closing_evidence() returns trigger
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

create constraint trigger finding_closing_evidence after update of status, severity on findings.finding
  deferrable initially deferred
  for each row
  when (
    new.status = 'closed' and new.severity in ('critical', 'high')
    and (old.status <> 'closed' or old.severity not in ('critical', 'high'))
  )
  execute function findings.guard_closing_evidence();

-- INVARIANT: what is named as repeated is closed or accepted at that moment, whoever writes. That it is there, and the
-- tenant's own, is kept by finding_repeat_of_fk.
create function findings.guard_repeat() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if exists (
    select from findings.finding f
    where f.tenant_id = new.tenant_id and f.id = new.repeat_of_id and f.status not in ('closed', 'risk_accepted')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_repeats_what_has_ended',
      message = 'what a finding repeats is closed';
  end if;
  return new;
end
$$;

create trigger finding_repeat_guard before insert on findings.finding
  for each row when (new.repeat_of_id is not null) execute function findings.guard_repeat();
create trigger finding_repeat_change_guard before update of repeat_of_id on findings.finding
  for each row when (new.repeat_of_id is not null and new.repeat_of_id is distinct from old.repeat_of_id)
  execute function findings.guard_repeat();

call tenancy.protect_table('findings.finding', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.track_changes('findings.finding', 'finding');

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

-- INVARIANT: what leaves the draft keeps an entity, also when links are taken away.
create function findings.guard_last_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if exists (
    select from findings.finding f
    where f.tenant_id = old.tenant_id and f.id = old.finding_id and f.status not in ('draft', 'cancelled')
  ) and not exists (
    select from findings.finding_entity link where link.tenant_id = old.tenant_id and link.finding_id = old.finding_id
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_entity_before_open',
      message = 'a finding that is no draft names an entity';
  end if;
  return null;
end
$$;

create constraint trigger finding_entity_last after delete on findings.finding_entity
  deferrable initially deferred
  for each row execute function findings.guard_last_entity();

call tenancy.protect_table('findings.finding_entity', 'postern_findings', array['select', 'insert', 'delete']);

create table findings.recommendation (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  finding_id uuid not null,
  number smallint not null,
  reference text not null,
  external_id text,
  text text not null,
  priority text not null,
  response text not null default 'pending',
  response_rationale text,
  status text not null default 'submitted',
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint recommendation_pk primary key (tenant_id, id),
  constraint recommendation_of_finding_unique unique (tenant_id, finding_id, id),
  constraint recommendation_number_unique unique (tenant_id, finding_id, number),
  constraint recommendation_reference_unique unique (tenant_id, reference),
  constraint recommendation_external_id_unique unique (tenant_id, external_id),
  constraint recommendation_finding_fk foreign key (tenant_id, finding_id) references findings.finding (tenant_id, id),
  constraint recommendation_number_range check (number between 1 and 1000),
  constraint recommendation_external_id_length check (char_length(external_id) between 1 and 255),
  constraint recommendation_text_length check (char_length(text) between 1 and 20000),
  constraint recommendation_priority_known check (priority in ('high', 'medium', 'low')),
  constraint recommendation_response_known check (
    response in ('pending', 'accepted', 'partially_accepted', 'rejected')
  ),
  constraint recommendation_rationale_length check (char_length(response_rationale) <= 20000),
  constraint recommendation_rejection_has_reasons check (
    response <> 'rejected' or btrim(coalesce(response_rationale, '')) <> ''
  ),
  constraint recommendation_status_known check (
    status in ('submitted', 'accepted', 'rejected', 'implemented', 'verified', 'superseded')
  ),
  -- A recommendation is what its response has made of it.
  constraint recommendation_status_fits_response check (
    status = 'superseded'
    or (response = 'pending') = (status = 'submitted') and (response = 'rejected') = (status = 'rejected')
  ),
  constraint recommendation_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint recommendation_created_by_type_known check (
    created_by_type in ('api_key', 'user', 'operator', 'connector')
  ),
  constraint recommendation_version_positive check (version > 0)
);
comment on table findings.recommendation is 'What is recommended about a finding, numbered within it, and what became of it.';
create index recommendation_by_created_at on findings.recommendation (tenant_id, created_at, id);
create index recommendation_by_updated_at on findings.recommendation (tenant_id, updated_at, id);

-- INVARIANT: the same for recommendations.
create function findings.guard_recommendation() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
begin
  if tg_op = 'INSERT' then
    if new.status <> 'submitted' then
      broken := 'recommendation_status_at_creation';
    end if;
  elsif (new.tenant_id, new.id, new.number, new.reference, new.finding_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.number, old.reference, old.finding_id, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    broken := 'recommendation_identity_fixed';
  elsif new.version <> old.version + 1 then
    broken := 'recommendation_version_counts';
  elsif old.status in ('verified', 'rejected', 'superseded') then
    broken := 'recommendation_end_is_final';
  elsif new.status <> old.status and (old.status, new.status) not in (
    ('submitted', 'accepted'),
    ('submitted', 'rejected'),
    ('submitted', 'superseded'),
    ('accepted', 'implemented'),
    ('accepted', 'superseded'),
    ('implemented', 'verified'),
    ('implemented', 'accepted'),
    ('implemented', 'superseded')
  ) then
    broken := 'recommendation_status_transition';
  end if;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'recommendation', constraint = broken,
      message = 'a recommendation cannot change in this way';
  end if;
  return new;
end
$$;

create trigger recommendation_guard before insert or update on findings.recommendation
  for each row execute function findings.guard_recommendation();
create constraint trigger recommendation_logged_move after update of status on findings.recommendation
  deferrable initially deferred
  for each row when (new.status <> old.status) execute function findings.guard_logged_move();

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

create trigger recommendation_guard_cancelled before insert or update on findings.recommendation
  for each row execute function findings.guard_part_of_cancelled();

-- INVARIANT: a recommendation moves no further than the live plans that carry it out, and back only where they are.
create function findings.guard_carried_out() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  -- action_plan_recommendation_by_recommendation, action_plan_pk
  by_plans constant text := findings.status_by_plans(array(
    select p.status
    from findings.action_plan_recommendation link
    join findings.action_plan p on p.tenant_id = link.tenant_id and p.id = link.action_plan_id
    where link.tenant_id = new.tenant_id and link.recommendation_id = new.id
  ));
begin
  -- Verified is reached by way of implemented.
  if new.status = 'implemented' and by_plans = 'accepted'
    or new.status = 'verified' and by_plans <> 'verified'
    or old.status = 'implemented' and new.status = 'accepted' and by_plans is distinct from 'accepted'
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

call tenancy.protect_table('findings.recommendation', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.track_changes('findings.recommendation', 'recommendation');

create table findings.action_plan_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint action_plan_counter_pk primary key (tenant_id, year),
  constraint action_plan_counter_year_known check (year between 2000 and 9999),
  constraint action_plan_counter_positive check (last_number > 0)
);
comment on table findings.action_plan_counter is
  'The last number of AP-<year>-<number> that is used or free, one row a tenant and year.';

call tenancy.protect_table('findings.action_plan_counter', 'postern_findings', array['select', 'insert', 'update']);

create table findings.action_plan (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  year integer not null,
  number integer not null,
  reference text not null generated always as (
    'AP-' || year::text || '-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
  finding_id uuid not null,
  external_id text,
  title text not null,
  description text,
  owner jsonb not null,
  due_on date not null,
  original_due_on date not null,
  extension_count integer not null default 0,
  percent_complete smallint not null default 0,
  status text not null default 'proposed',
  priority text,
  estimated_cost jsonb,
  external_url text,
  completed_on date,
  verified_on date,
  verified_by jsonb,
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint action_plan_pk primary key (tenant_id, id),
  constraint action_plan_of_finding_unique unique (tenant_id, finding_id, id),
  constraint action_plan_number_unique unique (tenant_id, year, number),
  constraint action_plan_reference_unique unique (tenant_id, reference),
  constraint action_plan_external_id_unique unique (tenant_id, external_id),
  constraint action_plan_finding_fk foreign key (tenant_id, finding_id) references findings.finding (tenant_id, id),
  constraint action_plan_number_positive check (number > 0),
  constraint action_plan_external_id_length check (char_length(external_id) between 1 and 255),
  constraint action_plan_title_length check (char_length(title) between 1 and 255),
  constraint action_plan_description_length check (char_length(description) <= 20000),
  constraint action_plan_owner_is_object check (jsonb_typeof(owner) = 'object'),
  constraint action_plan_due_on_range check (due_on between date '1900-01-01' and date '9999-12-31'),
  constraint action_plan_extension_count_not_negative check (extension_count >= 0),
  constraint action_plan_percent_range check (percent_complete between 0 and 100),
  -- All done is what its owner says with the status, and what another person has then verified.
  constraint action_plan_percent_fits_status check (
    (percent_complete = 100) = (status in ('implemented', 'verified')) or status in ('rejected', 'cancelled')
  ),
  constraint action_plan_status_known check (
    status in ('proposed', 'approved', 'in_progress', 'blocked', 'implemented', 'verified', 'rejected', 'cancelled')
  ),
  constraint action_plan_priority_known check (priority in ('high', 'medium', 'low')),
  constraint action_plan_cost_is_object check (jsonb_typeof(estimated_cost) = 'object'),
  constraint action_plan_url_is_https check (external_url like 'https://%' and char_length(external_url) <= 2000),
  constraint action_plan_completed_when_done check (
    (completed_on is not null) = (status in ('implemented', 'verified'))
  ),
  constraint action_plan_verified_when_verified check (
    (verified_on is not null) = (status = 'verified') and (verified_by is not null) = (status = 'verified')
  ),
  constraint action_plan_verified_by_is_object check (jsonb_typeof(verified_by) = 'object'),
  constraint action_plan_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint action_plan_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint action_plan_version_positive check (version > 0)
);
comment on table findings.action_plan is 'What is done about a finding, by whom and until when.';
create index action_plan_by_created_at on findings.action_plan (tenant_id, created_at, id);
create index action_plan_by_updated_at on findings.action_plan (tenant_id, updated_at, id);
create index action_plan_by_due_on on findings.action_plan (tenant_id, due_on, id);

-- INVARIANT: an action plan keeps its identity, its finding and the date first agreed; its version counts; its status
-- moves along the state machine; a due date moves only together with the extension that says why.
create function findings.guard_action_plan() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
begin
  if tg_op = 'INSERT' then
    if new.status <> 'proposed' then
      broken := 'action_plan_status_at_creation';
    elsif new.due_on <> new.original_due_on or new.extension_count <> 0 then
      broken := 'action_plan_original_due_on_fixed';
    elsif exists (
      select from findings.finding f
      where f.tenant_id = new.tenant_id and f.id = new.finding_id and new.due_on < f.identified_on
    ) then
      broken := 'action_plan_due_after_identified';
    end if;
  elsif (new.tenant_id, new.id, new.year, new.number, new.finding_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.year, old.number, old.finding_id, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    broken := 'action_plan_identity_fixed';
  elsif new.original_due_on <> old.original_due_on then
    broken := 'action_plan_original_due_on_fixed';
  elsif new.version <> old.version + 1 then
    broken := 'action_plan_version_counts';
  elsif old.status in ('verified', 'rejected', 'cancelled') then
    broken := 'action_plan_end_is_final';
  elsif new.status <> old.status and (old.status, new.status) not in (
    ('proposed', 'approved'),
    ('proposed', 'rejected'),
    ('proposed', 'cancelled'),
    ('approved', 'in_progress'),
    ('approved', 'cancelled'),
    ('in_progress', 'implemented'),
    ('in_progress', 'blocked'),
    ('in_progress', 'cancelled'),
    ('blocked', 'in_progress'),
    ('blocked', 'cancelled'),
    ('implemented', 'verified'),
    ('implemented', 'in_progress')
  ) then
    broken := 'action_plan_status_transition';
  elsif new.due_on <> old.due_on and not exists (
    select from findings.action_plan_extension e
    where e.tenant_id = new.tenant_id and e.action_plan_id = new.id and e.number = new.extension_count
      and e.from_on = old.due_on and e.to_on = new.due_on
  ) or (new.due_on <> old.due_on) <> (new.extension_count = old.extension_count + 1)
    or new.due_on = old.due_on and new.extension_count <> old.extension_count
  then
    broken := 'action_plan_due_on_extended';
  end if;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'action_plan', constraint = broken,
      message = 'an action plan cannot change in this way';
  end if;
  return new;
end
$$;

create trigger action_plan_guard before insert or update on findings.action_plan
  for each row execute function findings.guard_action_plan();
create constraint trigger action_plan_logged_move after update of status on findings.action_plan
  deferrable initially deferred
  for each row when (new.status <> old.status) execute function findings.guard_logged_move();
create trigger action_plan_guard_cancelled before insert or update on findings.action_plan
  for each row execute function findings.guard_part_of_cancelled();
create trigger action_plan_guard_four_eyes before update on findings.action_plan
  for each row when (new.verified_by is not null) execute function findings.guard_four_eyes();
create constraint trigger action_plan_remediation_under_way after update of status on findings.action_plan
  deferrable initially deferred
  for each row when (new.status = 'approved' and old.status <> 'approved')
  execute function findings.guard_remediation_under_way();

call tenancy.protect_table('findings.action_plan', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.track_changes('findings.action_plan', 'action_plan');

create table findings.action_plan_recommendation (
  tenant_id uuid not null,
  finding_id uuid not null,
  action_plan_id uuid not null,
  recommendation_id uuid not null,
  position smallint not null,
  constraint action_plan_recommendation_pk primary key (tenant_id, action_plan_id, recommendation_id),
  constraint action_plan_recommendation_position_unique unique (tenant_id, action_plan_id, position),
  -- Both belong to one finding.
  constraint action_plan_recommendation_plan_fk foreign key (tenant_id, finding_id, action_plan_id)
    references findings.action_plan (tenant_id, finding_id, id),
  constraint action_plan_recommendation_recommendation_fk foreign key (tenant_id, finding_id, recommendation_id)
    references findings.recommendation (tenant_id, finding_id, id),
  constraint action_plan_recommendation_position_range check (position between 1 and 50)
);
comment on table findings.action_plan_recommendation is 'Which recommendations an action plan carries out, in the order named.';
-- Serves the question which plans carry out a recommendation.
create index action_plan_recommendation_by_recommendation
  on findings.action_plan_recommendation (tenant_id, recommendation_id, action_plan_id);

call tenancy.protect_table(
  'findings.action_plan_recommendation', 'postern_findings', array['select', 'insert', 'delete']);

create table findings.action_plan_extension (
  tenant_id uuid not null,
  action_plan_id uuid not null,
  number integer not null,
  from_on date not null,
  to_on date not null,
  reason text not null,
  approved_by jsonb not null,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  constraint action_plan_extension_pk primary key (tenant_id, action_plan_id, number),
  constraint action_plan_extension_plan_fk foreign key (tenant_id, action_plan_id)
    references findings.action_plan (tenant_id, id),
  constraint action_plan_extension_moves check (from_on <> to_on),
  constraint action_plan_extension_reason_length check (char_length(reason) between 1 and 20000),
  constraint action_plan_extension_approved_by_is_object check (jsonb_typeof(approved_by) = 'object'),
  constraint action_plan_extension_created_by_type_known check (
    created_by_type in ('api_key', 'user', 'operator', 'connector')
  ),
  constraint action_plan_extension_reason_said check (reason ~ '\S')
);
comment on table findings.action_plan_extension is 'Each agreed change of a due date, with its reason and who agreed. Only grows.';

create trigger action_plan_extension_only_grows before update or delete on findings.action_plan_extension
  for each row execute function tenancy.refuse_change();
create trigger action_plan_extension_never_emptied before truncate on findings.action_plan_extension
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('findings.action_plan_extension', 'postern_findings', array['select', 'insert']);

create table findings.tracker_log (
  tenant_id uuid not null,
  position bigint not null,
  finding_id uuid not null,
  seq integer not null,
  action_plan_id uuid,
  recommendation_id uuid,
  kind text not null,
  actor_type text not null,
  actor_id text not null,
  has_evidence boolean not null,
  recorded_at timestamptz(3) not null,
  entry text not null,
  hash text not null,
  root text not null,
  -- Where the write-ahead log was when the entry was written: the order in which entries get their places. A transaction that
  -- has waited for another one writes behind it. Null once the entry is placed.
  arrived_at pg_lsn,
  constraint tracker_log_pk primary key (tenant_id, position),
  constraint tracker_log_seq_unique unique (tenant_id, finding_id, seq),
  constraint tracker_log_finding_fk foreign key (tenant_id, finding_id) references findings.finding (tenant_id, id),
  constraint tracker_log_plan_fk foreign key (tenant_id, finding_id, action_plan_id)
    references findings.action_plan (tenant_id, finding_id, id),
  constraint tracker_log_recommendation_fk foreign key (tenant_id, finding_id, recommendation_id)
    references findings.recommendation (tenant_id, finding_id, id),
  constraint tracker_log_kind_known check (
    kind in (
      'created', 'note', 'status_change', 'due_date_change', 'owner_change', 'progress', 'evidence_linked',
      'field_change', 'validation', 'escalation', 'correction', 'system'
    )
  ),
  constraint tracker_log_actor_type_known check (
    actor_type in ('api_key', 'user', 'operator', 'connector', 'system')
  )
);
comment on table findings.tracker_log is
  'What happened to a finding and its plans. Only grows: each entry holds the hash of the one before it.';
comment on column findings.tracker_log.entry is
  'The entry as canonical JSON (RFC 8785), the very text that is hashed. The columns beside it are taken from it.';
comment on column findings.tracker_log.position is
  'Counts the entries of the tenant in the order of their commits. Some negative number while an entry waits for its place.';
comment on column findings.tracker_log.root is
  'SHA-256 over the root before (at first 64 zeros) and the hash, both as text. Empty while the entry waits for its place.';
-- Serves the question whether evidence was named for a finding.
create index tracker_log_with_evidence on findings.tracker_log (tenant_id, finding_id) where has_evidence;

-- INVARIANT: an entry continues the chain of its finding without a gap. It is hashed here, over the stored text.
create function findings.chain_log_entry() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  entry constant jsonb := new.entry::jsonb;
  finding_end record;
begin
  new.arrived_at := pg_current_wal_insert_lsn();
  new.root := '';
  select l.seq, l.hash
    into finding_end
    from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.finding_id
    order by l.seq desc
    limit 1;

  new.seq := coalesce(finding_end.seq, 0) + 1;
  -- Negative, so that tracker_log_pk finds what waits.
  new.position := -1 - (hashtextextended(new.finding_id::text || ' ' || new.seq, 0) & 9223372036854775807);
  new.action_plan_id := (entry ->> 'action_plan_id')::uuid;
  new.recommendation_id := (entry ->> 'recommendation_id')::uuid;
  new.kind := entry ->> 'kind';
  new.actor_type := entry -> 'actor' ->> 'type';
  new.actor_id := entry -> 'actor' ->> 'id';
  new.has_evidence := coalesce(jsonb_array_length(entry -> 'evidence_refs'), 0) > 0;
  new.recorded_at := now()::timestamptz(3);
  new.hash := encode(sha256(convert_to(new.entry, 'UTF8')), 'hex');

  if (entry ->> 'seq')::integer is distinct from new.seq
    or (entry ->> 'finding_id')::uuid is distinct from new.finding_id
    or entry ->> 'prev_hash' is distinct from finding_end.hash
    or (entry ->> 'recorded_at')::timestamptz is distinct from new.recorded_at
    or (entry ->> 'occurred_at')::timestamptz > new.recorded_at
    or (entry ->> 'corrects_seq')::integer >= new.seq
    or entry ?| array['hash', 'position']
  then
    -- An assertion that is not believed is refused first, by the policy of the rows that are there.
    perform from findings.tracker_log l where l.tenant_id = new.tenant_id limit 1;
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'tracker_log', constraint = 'tracker_log_chain',
      message = 'the entry does not continue the log';
  end if;
  return new;
end
$$;

create trigger tracker_log_chain before insert on findings.tracker_log
  for each row execute function findings.chain_log_entry();
create trigger tracker_log_never_emptied before truncate on findings.tracker_log
  for each statement execute function tenancy.refuse_change();
create trigger tracker_log_only_grows before delete on findings.tracker_log
  for each row execute function tenancy.refuse_change();

-- INVARIANT: an entry gets its position and root once, behind the last entry of the tenant and behind the one before it in its
-- finding; nothing else of it ever changes. Whoever places entries holds the end of the tenant's log until the commit.
create function findings.place_log_entry() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  tenant_end record;
begin
  new.position := old.position;
  if old.position > 0 or new is distinct from old then
    raise exception using
      errcode = '55000', schema = 'findings', table = 'tracker_log',
      message = 'rows of findings.tracker_log are never changed or deleted';
  end if;
  perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || new.tenant_id::text, 0));
  -- tracker_log_seq_unique
  if new.seq > 1 and not exists (
    select from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.finding_id and l.seq = new.seq - 1 and l.position > 0
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'tracker_log', constraint = 'tracker_log_chain',
      message = 'the entry before it in its finding is placed first';
  end if;
  select * into tenant_end from findings.log_end_of(new.tenant_id);
  new.position := coalesce(tenant_end.position, 0) + 1;
  new.arrived_at := null;
  new.root := encode(sha256(convert_to(coalesce(tenant_end.root, repeat('0', 64)) || new.hash, 'UTF8')), 'hex');
  return new;
end
$$;

create trigger tracker_log_places_once before update on findings.tracker_log
  for each row execute function findings.place_log_entry();

call tenancy.protect_table('findings.tracker_log', 'postern_findings', array['select', 'insert', 'update']);
revoke update on findings.tracker_log from postern_findings;
grant update (position) on findings.tracker_log to postern_findings;
call tenancy.track_changes('findings.tracker_log', 'log_entry', 'finding_id');
-- An entry that gets its position has not changed.
drop trigger note_updates on findings.tracker_log;

create table findings.log_checkpoint (
  tenant_id uuid not null,
  day date not null,
  position bigint not null,
  root text not null,
  jws text not null,
  created_at timestamptz(3) not null default now(),
  constraint log_checkpoint_pk primary key (tenant_id, day),
  constraint log_checkpoint_position_fk foreign key (tenant_id, position)
    references findings.tracker_log (tenant_id, position)
);
comment on table findings.log_checkpoint is
  'The signed end of a tenant''s log, one for each day on which something was written: made when the next day writes.';

create trigger log_checkpoint_only_grows before update or delete on findings.log_checkpoint
  for each row execute function tenancy.refuse_change();
create trigger log_checkpoint_never_emptied before truncate on findings.log_checkpoint
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('findings.log_checkpoint', 'postern_findings', array['select', 'insert']);

create table findings.log_end (
  tenant_id uuid not null,
  position bigint not null,
  root text not null,
  day date not null,
  jws text not null,
  constraint log_end_pk primary key (tenant_id),
  constraint log_end_position_fk foreign key (tenant_id, position)
    references findings.tracker_log (tenant_id, position),
  constraint log_end_root_form check (root ~ '^[0-9a-f]{64}$')
);
comment on table findings.log_end is
  'The end of a tenant''s log as its last writer has signed it: the checkpoint of its day once the day is over. Only moves on.';

-- INVARIANT: the signed end of a log only moves on.
create function findings.guard_log_end() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'check_violation', schema = 'findings', table = 'log_end', constraint = 'log_end_moves_on',
    message = 'the signed end of a log only moves on';
end
$$;

create trigger log_end_moves_on before update on findings.log_end
  for each row when (new.tenant_id <> old.tenant_id or new.position <= old.position or new.day < old.day)
  execute function findings.guard_log_end();
create trigger log_end_stays before delete on findings.log_end
  for each row execute function tenancy.refuse_change();
create trigger log_end_is_never_emptied before truncate on findings.log_end
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('findings.log_end', 'postern_findings', array['select', 'insert', 'update']);

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

call tenancy.protect_table('findings.free_number', 'postern_findings', array['select', 'insert', 'update', 'delete']);

-- Whether evidence was named for a finding since its remedy last failed: since it was reopened or its validation failed.
-- Reads only the entries since evidence was last named. Served by tracker_log_with_evidence and tracker_log_seq_unique.
create function findings.has_fresh_evidence(tenant uuid, finding uuid) returns boolean
  language sql
  stable
  set search_path = ''
as $$
  select exists (
    select from (
      select max(l.seq) as seq
      from findings.tracker_log l
      where l.tenant_id = tenant and l.finding_id = finding and l.has_evidence
    ) as last
    where last.seq is not null
      and not exists (
        select from findings.tracker_log setback
        where setback.tenant_id = tenant and setback.finding_id = finding and setback.seq >= last.seq
          and case
            when setback.kind <> 'status_change' or setback.action_plan_id is not null
              or setback.recommendation_id is not null then false
            else setback.entry::jsonb -> 'changes' @> '[{"field": "status", "from": "closed", "to": "open"}]'
              or setback.entry::jsonb -> 'changes'
                @> '[{"field": "status", "from": "pending_validation", "to": "in_remediation"}]'
          end
      )
  )
$$;
grant execute on function findings.has_fresh_evidence(uuid, uuid) to postern_findings;

-- The status that an accepted recommendation gets from the statuses of its plans: how far all live plans have come. Null if
-- no plan is live; the recommendation is then moved by hand.
create function findings.status_by_plans(plans text[]) returns text
  language sql
  immutable
  parallel safe
  set search_path = ''
as $$
  select case
    when cardinality(live) = 0 then null
    when live <@ array['verified'] then 'verified'
    when live <@ array['implemented', 'verified'] then 'implemented'
    else 'accepted'
  end
  from (values (array_remove(array_remove(plans, 'rejected'), 'cancelled'))) as those (live)
$$;
grant execute on function findings.status_by_plans(text[]) to postern_findings;

-- The end of a tenant's log; null if the log is empty.
create function findings.log_end_of(tenant uuid, out "position" bigint, out root text)
  language sql
  stable
  set search_path = ''
as $$
  -- tracker_log_pk, backwards
  select l.position, l.root
  from findings.tracker_log l
  where l.tenant_id = tenant and l.position > 0
  order by l.position desc
  limit 1
$$;
grant execute on function findings.log_end_of(uuid) to postern_findings;

-- Places up to `most` committed entries of the tenant in the order of their arrival. Returns how many it placed.
create function findings.place_log_entries(most integer) returns integer
  language plpgsql
  set search_path = ''
as $$
declare
  waiting record;
  placed integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || tenancy.tenant_id()::text, 0));
  -- tracker_log_pk
  for waiting in
    select l.position from findings.tracker_log l where l.position < 0 order by l.arrived_at, l.seq limit most
  loop
    update findings.tracker_log l set position = 0 where l.position = waiting.position;
    placed := placed + 1;
  end loop;
  return placed;
end
$$;
grant execute on function findings.place_log_entries(integer) to postern_findings;

call tenancy.create_idempotency_table('findings', 'postern_findings');
