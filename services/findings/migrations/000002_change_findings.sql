-- Changing findings; recommendations and action plans; the tracker log, which records each change and is never changed.

-- Whether two references name one person: by id where both have one, else by address, else by name.
create function findings.same_person(a jsonb, b jsonb) returns boolean
  language sql
  immutable
  parallel safe
  set search_path = ''
as $$
  select case
    when a ->> 'person_id' is not null and b ->> 'person_id' is not null then a ->> 'person_id' = b ->> 'person_id'
    when a ->> 'email' is not null and b ->> 'email' is not null then lower(a ->> 'email') = lower(b ->> 'email')
    else coalesce(lower(a ->> 'name') = lower(b ->> 'name'), false)
  end
$$;
-- Constraints call it with the rights of whoever writes.
grant execute on function findings.same_person(jsonb, jsonb) to postern_findings;

alter table findings.finding
  add column accepted_until date,
  add column accepted_by jsonb,
  add column validated_by jsonb,
  add constraint finding_accepted_by_is_object check (jsonb_typeof(accepted_by) = 'object'),
  add constraint finding_validated_by_is_object check (jsonb_typeof(validated_by) = 'object'),
  add constraint finding_acceptance_when_accepted check (
    (accepted_until is not null and accepted_by is not null) = (status = 'risk_accepted')
    and (accepted_until is null) = (accepted_by is null)
  ),
  add constraint finding_validation_when_closed check ((validated_by is not null) = (status = 'closed')),
  -- Four eyes: who answers for a finding does not declare it remedied.
  add constraint finding_validated_by_another check (not findings.same_person(owner, validated_by));

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

create table findings.action_plan_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint action_plan_counter_pk primary key (tenant_id, year),
  constraint action_plan_counter_year_known check (year between 2000 and 9999),
  constraint action_plan_counter_positive check (last_number > 0)
);
comment on table findings.action_plan_counter is
  'The last number given out in AP-<year>-<number>, one row a tenant and year. Moves in the transaction that uses it.';

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
  -- Four eyes: who does the work does not verify it.
  constraint action_plan_verified_by_another check (not findings.same_person(owner, verified_by)),
  constraint action_plan_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint action_plan_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint action_plan_version_positive check (version > 0)
);
comment on table findings.action_plan is 'What is done about a finding, by whom and until when.';

create index action_plan_by_created_at on findings.action_plan (tenant_id, created_at, id);
create index action_plan_by_updated_at on findings.action_plan (tenant_id, updated_at, id);
create index action_plan_by_due_on on findings.action_plan (tenant_id, due_on, id);

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
  )
);
comment on table findings.action_plan_extension is 'Each agreed change of a due date, with its reason and who agreed. Only grows.';

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

-- INVARIANT: what a finding is never changes, its version counts its changes, and its status moves along the state
-- machine alone, with what a move needs, whoever writes. What is cancelled stays as it is.
create or replace function findings.guard_finding() returns trigger
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
  constraint tracker_log_actor_type_known check (actor_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table findings.tracker_log is
  'What happened to a finding and its plans. Only grows: each entry holds the hash of the one before it.';
comment on column findings.tracker_log.entry is
  'The entry as canonical JSON (RFC 8785), the very text that is hashed. The columns beside it are taken from it.';
comment on column findings.tracker_log.position is 'Counts the entries of the tenant in the order of their commits.';
comment on column findings.tracker_log.root is 'SHA-256 over the root before (at first 64 zeros) and the hash, both as text.';

-- Serves the question whether evidence was named for a finding.
create index tracker_log_with_evidence on findings.tracker_log (tenant_id, finding_id) where has_evidence;

-- INVARIANT: an entry continues the chain of its finding and of its tenant, without a gap, and is hashed here, over the
-- text that is stored. One transaction of a tenant at a time holds the end of the log, until it commits.
create function findings.chain_log_entry() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  entry constant jsonb := new.entry::jsonb;
  tenant_end record;
  finding_end record;
begin
  perform pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || new.tenant_id::text, 0));
  select l.position, l.root
    into tenant_end
    from findings.tracker_log l
    where l.tenant_id = new.tenant_id
    order by l.position desc
    limit 1;
  select l.seq, l.hash
    into finding_end
    from findings.tracker_log l
    where l.tenant_id = new.tenant_id and l.finding_id = new.finding_id
    order by l.seq desc
    limit 1;

  new.position := coalesce(tenant_end.position, 0) + 1;
  new.seq := coalesce(finding_end.seq, 0) + 1;
  new.action_plan_id := (entry ->> 'action_plan_id')::uuid;
  new.recommendation_id := (entry ->> 'recommendation_id')::uuid;
  new.kind := entry ->> 'kind';
  new.actor_type := entry -> 'actor' ->> 'type';
  new.actor_id := entry -> 'actor' ->> 'id';
  new.has_evidence := coalesce(jsonb_array_length(entry -> 'evidence_refs'), 0) > 0;
  new.recorded_at := now()::timestamptz(3);
  new.hash := encode(sha256(convert_to(new.entry, 'UTF8')), 'hex');
  new.root := encode(
    sha256(convert_to(coalesce(tenant_end.root, repeat('0', 64)) || new.hash, 'UTF8')), 'hex');

  if (entry ->> 'position')::bigint is distinct from new.position
    or (entry ->> 'seq')::integer is distinct from new.seq
    or (entry ->> 'finding_id')::uuid is distinct from new.finding_id
    or entry ->> 'prev_hash' is distinct from finding_end.hash
    or (entry ->> 'recorded_at')::timestamptz is distinct from new.recorded_at
    or (entry ->> 'occurred_at')::timestamptz > new.recorded_at
    or (entry ->> 'corrects_seq')::integer >= new.seq
    or entry ? 'hash'
  then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'tracker_log', constraint = 'tracker_log_chain',
      message = 'the entry does not continue the log';
  end if;
  return new;
end
$$;

create trigger tracker_log_chain before insert on findings.tracker_log
  for each row execute function findings.chain_log_entry();

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

create trigger tracker_log_only_grows before update or delete on findings.tracker_log
  for each row execute function tenancy.refuse_change();
create trigger tracker_log_never_emptied before truncate on findings.tracker_log
  for each statement execute function tenancy.refuse_change();
create trigger log_checkpoint_only_grows before update or delete on findings.log_checkpoint
  for each row execute function tenancy.refuse_change();
create trigger log_checkpoint_never_emptied before truncate on findings.log_checkpoint
  for each statement execute function tenancy.refuse_change();
create trigger action_plan_extension_only_grows before update or delete on findings.action_plan_extension
  for each row execute function tenancy.refuse_change();
create trigger action_plan_extension_never_emptied before truncate on findings.action_plan_extension
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('findings.finding', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.protect_table('findings.finding_entity', 'postern_findings', array['select', 'insert', 'delete']);
call tenancy.protect_table('findings.recommendation', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.protect_table('findings.action_plan_counter', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.protect_table('findings.action_plan', 'postern_findings', array['select', 'insert', 'update']);
call tenancy.protect_table(
  'findings.action_plan_recommendation', 'postern_findings', array['select', 'insert', 'delete']);
call tenancy.protect_table('findings.action_plan_extension', 'postern_findings', array['select', 'insert']);
call tenancy.protect_table('findings.tracker_log', 'postern_findings', array['select', 'insert']);
call tenancy.protect_table('findings.log_checkpoint', 'postern_findings', array['select', 'insert']);
