create schema findings authorization postern_owner;
grant usage on schema findings to postern_findings;

create table findings.finding (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  year integer not null,
  number integer not null,
  reference text not null generated always as (((('F-'::text || (year)::text) || '-'::text) || lpad((number)::text, GREATEST(4, char_length((number)::text)), '0'::text))) stored,
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
CASE severity
    WHEN 'critical'::text THEN 4
    WHEN 'high'::text THEN 3
    WHEN 'medium'::text THEN 2
    ELSE 1
END) stored,
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
  custom jsonb not null default '{}'::jsonb,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  constraint finding_pk PRIMARY KEY (tenant_id, id),
  constraint finding_external_id_unique UNIQUE (tenant_id, external_id),
  constraint finding_number_unique UNIQUE (tenant_id, year, number),
  constraint finding_reference_unique UNIQUE (tenant_id, reference),
  constraint finding_cause_before_open CHECK (((status = ANY (ARRAY['draft'::text, 'cancelled'::text])) OR (btrim(COALESCE(cause, ''::text)) <> ''::text))),
  constraint finding_cause_category_known CHECK ((cause_category = ANY (ARRAY['people'::text, 'process'::text, 'system'::text, 'governance'::text, 'third_party'::text, 'data'::text, 'other'::text]))),
  constraint finding_cause_length CHECK ((char_length(cause) <= 100000)),
  constraint finding_closed_on_when_closed CHECK (((closed_on IS NOT NULL) = (status = 'closed'::text))),
  constraint finding_condition_length CHECK (((char_length(condition) >= 1) AND (char_length(condition) <= 100000))),
  constraint finding_consequence_before_open CHECK (((status = ANY (ARRAY['draft'::text, 'cancelled'::text])) OR (btrim(COALESCE(consequence, ''::text)) <> ''::text))),
  constraint finding_consequence_length CHECK ((char_length(consequence) <= 100000)),
  constraint finding_corrective_action_length CHECK ((char_length(corrective_action) <= 100000)),
  constraint finding_coso_component_known CHECK ((coso_component = ANY (ARRAY['control_environment'::text, 'risk_assessment'::text, 'control_activities'::text, 'information_communication'::text, 'monitoring'::text]))),
  constraint finding_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint finding_criteria_before_open CHECK (((status = ANY (ARRAY['draft'::text, 'cancelled'::text])) OR (btrim(COALESCE(criteria, ''::text)) <> ''::text))),
  constraint finding_criteria_length CHECK ((char_length(criteria) <= 100000)),
  constraint finding_custom_is_object CHECK ((jsonb_typeof(custom) = 'object'::text)),
  constraint finding_deficiency_class_known CHECK ((deficiency_class = ANY (ARRAY['deficiency'::text, 'significant_deficiency'::text, 'material_weakness'::text]))),
  constraint finding_disagreement_has_reasons CHECK ((((management_response ->> 'agreement'::text) <> 'disagree'::text) OR (btrim(COALESCE((management_response ->> 'text'::text), ''::text)) <> ''::text))),
  constraint finding_engagement_ref_length CHECK (((char_length(engagement_ref) >= 1) AND (char_length(engagement_ref) <= 255))),
  constraint finding_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint finding_identified_not_in_future CHECK ((identified_on <= ((updated_at AT TIME ZONE 'UTC'::text))::date)),
  constraint finding_identified_on_range CHECK ((identified_on >= '1900-01-01'::date)),
  constraint finding_management_response_is_object CHECK ((jsonb_typeof(management_response) = 'object'::text)),
  constraint finding_number_positive CHECK ((number > 0)),
  constraint finding_owner_before_open CHECK (((status = ANY (ARRAY['draft'::text, 'cancelled'::text])) OR (owner IS NOT NULL))),
  constraint finding_owner_is_object CHECK ((jsonb_typeof(owner) = 'object'::text)),
  constraint finding_reopened_count_not_negative CHECK ((reopened_count >= 0)),
  constraint finding_repeats_another CHECK ((repeat_of_id <> id)),
  constraint finding_severity_known CHECK ((severity = ANY (ARRAY['critical'::text, 'high'::text, 'medium'::text, 'low'::text]))),
  constraint finding_source_known CHECK ((source = ANY (ARRAY['internal_audit'::text, 'external_audit'::text, 'regulator'::text, 'self_identified'::text, 'monitoring'::text, 'other'::text]))),
  constraint finding_status_known CHECK ((status = ANY (ARRAY['draft'::text, 'open'::text, 'in_remediation'::text, 'pending_validation'::text, 'closed'::text, 'risk_accepted'::text, 'cancelled'::text]))),
  constraint finding_target_on_range CHECK (((target_on >= '1900-01-01'::date) AND (target_on <= '9999-12-31'::date))),
  constraint finding_title_length CHECK (((char_length(title) >= 1) AND (char_length(title) <= 255))),
  constraint finding_type_known CHECK ((type = ANY (ARRAY['control_deficiency'::text, 'noncompliance'::text, 'observation'::text, 'exception'::text, 'improvement'::text]))),
  constraint finding_version_positive CHECK ((version > 0)),
  constraint finding_repeat_of_fk FOREIGN KEY (tenant_id, repeat_of_id) REFERENCES findings.finding(tenant_id, id)
);
CREATE INDEX finding_by_created_at ON findings.finding USING btree (tenant_id, created_at, id);
CREATE INDEX finding_by_repeat_of ON findings.finding USING btree (tenant_id, repeat_of_id) WHERE (repeat_of_id IS NOT NULL);
CREATE INDEX finding_by_severity ON findings.finding USING btree (tenant_id, severity_rank, id);
CREATE INDEX finding_by_target_on ON findings.finding USING btree (tenant_id, target_on, id);
CREATE INDEX finding_by_updated_at ON findings.finding USING btree (tenant_id, updated_at, id);
CREATE CONSTRAINT TRIGGER finding_entity_before_open AFTER INSERT OR UPDATE OF status ON findings.finding DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.status <> ALL (ARRAY['draft'::text, 'cancelled'::text]))) EXECUTE FUNCTION findings.guard_finding_has_entity();
CREATE TRIGGER finding_guard BEFORE INSERT OR UPDATE ON findings.finding FOR EACH ROW EXECUTE FUNCTION findings.guard_finding();
CREATE TRIGGER note_deletes AFTER DELETE ON findings.finding REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON findings.finding REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON findings.finding REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
alter table findings.finding enable row level security;
alter table findings.finding force row level security;
create policy postern_findings_insert on findings.finding as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.finding as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.finding as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.finding to postern_findings;
comment on table findings.finding is 'A finding: condition, criteria, cause, consequence, corrective action, and its state.';
comment on column findings.finding.year is 'Year (UTC) in which the finding was documented; not that of identified_on.';
comment on column findings.finding.severity_rank is 'The order of severity, for sorting: critical is 4.';
comment on column findings.finding.created_at is 'Milliseconds, as clients see it, so that a page can begin exactly behind a row.';

create table findings.finding_entity (
  tenant_id uuid not null,
  finding_id uuid not null,
  entity_id uuid not null,
  "position" smallint not null,
  constraint finding_entity_pk PRIMARY KEY (tenant_id, finding_id, entity_id),
  constraint finding_entity_position_unique UNIQUE (tenant_id, finding_id, "position"),
  constraint finding_entity_position_range CHECK ((("position" >= 1) AND ("position" <= 50))),
  constraint finding_entity_finding_fk FOREIGN KEY (tenant_id, finding_id) REFERENCES findings.finding(tenant_id, id)
);
CREATE INDEX finding_entity_by_entity ON findings.finding_entity USING btree (tenant_id, entity_id, finding_id);
alter table findings.finding_entity enable row level security;
alter table findings.finding_entity force row level security;
create policy postern_findings_insert on findings.finding_entity as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.finding_entity as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.finding_entity as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.finding_entity to postern_findings;
comment on table findings.finding_entity is 'The auditable entities that a finding concerns, in the order in which they were named. The universe owns the entities.';

create table findings.idempotency_record (
  tenant_id uuid not null,
  slot bytea not null,
  fingerprint bytea not null,
  claim_id uuid not null,
  claimed_at timestamp with time zone not null default now(),
  answer text,
  constraint idempotency_record_pk PRIMARY KEY (tenant_id, slot),
  constraint idempotency_record_fingerprint_is_hash CHECK ((octet_length(fingerprint) = 32)),
  constraint idempotency_record_slot_is_hash CHECK ((octet_length(slot) = 32))
);
CREATE INDEX idempotency_record_by_claimed_at ON findings.idempotency_record USING btree (tenant_id, claimed_at);
alter table findings.idempotency_record enable row level security;
alter table findings.idempotency_record force row level security;
create policy postern_findings_delete on findings.idempotency_record as permissive for delete to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_insert on findings.idempotency_record as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.idempotency_record as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.idempotency_record as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.idempotency_record as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table findings.idempotency_record to postern_findings;
comment on table findings.idempotency_record is 'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.';
comment on column findings.idempotency_record.slot is 'SHA-256 over principal, route and key: what a client has written is not kept.';
comment on column findings.idempotency_record.fingerprint is 'SHA-256 over what the request said: another one under the same key is told from a repetition.';
comment on column findings.idempotency_record.claim_id is 'Who may write the answer. It changes when the request is taken over.';

create table findings.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint reference_counter_pk PRIMARY KEY (tenant_id, year),
  constraint reference_counter_positive CHECK ((last_number > 0)),
  constraint reference_counter_year_known CHECK (((year >= 2000) AND (year <= 9999)))
);
alter table findings.reference_counter enable row level security;
alter table findings.reference_counter force row level security;
create policy postern_findings_insert on findings.reference_counter as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.reference_counter as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.reference_counter as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.reference_counter as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.reference_counter to postern_findings;
comment on table findings.reference_counter is 'The last number given out in F-<year>-<number>, one row a tenant and year. Moves in the transaction that uses it.';

CREATE OR REPLACE FUNCTION findings.guard_finding()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_finding_has_entity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;
