create schema findings authorization postern_owner;
grant usage on schema findings to postern_findings;
grant usage on schema findings to postern_findings_definer;

create table findings.action_plan (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  year integer not null,
  number integer not null,
  reference text not null generated always as (((('AP-'::text || (year)::text) || '-'::text) || lpad((number)::text, GREATEST(4, char_length((number)::text)), '0'::text))) stored,
  finding_id uuid not null,
  external_id text,
  title text not null,
  description text,
  owner jsonb not null,
  due_on date not null,
  original_due_on date not null,
  extension_count integer not null default 0,
  percent_complete smallint not null default 0,
  status text not null default 'proposed'::text,
  priority text,
  estimated_cost jsonb,
  external_url text,
  completed_on date,
  verified_on date,
  verified_by jsonb,
  custom jsonb not null default '{}'::jsonb,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  overdue_on date,
  constraint action_plan_pk PRIMARY KEY (tenant_id, id),
  constraint action_plan_external_id_unique UNIQUE (tenant_id, external_id),
  constraint action_plan_number_unique UNIQUE (tenant_id, year, number),
  constraint action_plan_of_finding_unique UNIQUE (tenant_id, finding_id, id),
  constraint action_plan_reference_unique UNIQUE (tenant_id, reference),
  constraint action_plan_completed_when_done CHECK (((completed_on IS NOT NULL) = (status = ANY (ARRAY['implemented'::text, 'verified'::text])))),
  constraint action_plan_cost_is_object CHECK ((jsonb_typeof(estimated_cost) = 'object'::text)),
  constraint action_plan_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint action_plan_custom_is_object CHECK ((jsonb_typeof(custom) = 'object'::text)),
  constraint action_plan_description_length CHECK ((char_length(description) <= 20000)),
  constraint action_plan_due_on_range CHECK (((due_on >= '1900-01-01'::date) AND (due_on <= '9999-12-31'::date))),
  constraint action_plan_extension_count_not_negative CHECK ((extension_count >= 0)),
  constraint action_plan_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint action_plan_number_positive CHECK ((number > 0)),
  constraint action_plan_owner_is_object CHECK ((jsonb_typeof(owner) = 'object'::text)),
  constraint action_plan_percent_fits_status CHECK ((((percent_complete = 100) = (status = ANY (ARRAY['implemented'::text, 'verified'::text]))) OR (status = ANY (ARRAY['rejected'::text, 'cancelled'::text])))),
  constraint action_plan_percent_range CHECK (((percent_complete >= 0) AND (percent_complete <= 100))),
  constraint action_plan_priority_known CHECK ((priority = ANY (ARRAY['high'::text, 'medium'::text, 'low'::text]))),
  constraint action_plan_status_known CHECK ((status = ANY (ARRAY['proposed'::text, 'approved'::text, 'in_progress'::text, 'blocked'::text, 'implemented'::text, 'verified'::text, 'rejected'::text, 'cancelled'::text]))),
  constraint action_plan_title_length CHECK (((char_length(title) >= 1) AND (char_length(title) <= 255))),
  constraint action_plan_url_is_https CHECK (((external_url ~~ 'https://%'::text) AND (char_length(external_url) <= 2000))),
  constraint action_plan_verified_by_is_object CHECK ((jsonb_typeof(verified_by) = 'object'::text)),
  constraint action_plan_verified_when_verified CHECK ((((verified_on IS NOT NULL) = (status = 'verified'::text)) AND ((verified_by IS NOT NULL) = (status = 'verified'::text)))),
  constraint action_plan_version_positive CHECK ((version > 0)),
  constraint action_plan_finding_fk FOREIGN KEY (tenant_id, finding_id) REFERENCES findings.finding(tenant_id, id)
);
CREATE INDEX action_plan_becoming_overdue ON findings.action_plan USING btree (due_on, tenant_id, id) WHERE ((status <> ALL (ARRAY['verified'::text, 'rejected'::text, 'cancelled'::text, 'implemented'::text])) AND (overdue_on IS DISTINCT FROM due_on));
CREATE INDEX action_plan_by_created_at ON findings.action_plan USING btree (tenant_id, created_at, id);
CREATE INDEX action_plan_by_due_on ON findings.action_plan USING btree (tenant_id, due_on, id);
CREATE INDEX action_plan_by_updated_at ON findings.action_plan USING btree (tenant_id, updated_at, id);
CREATE TRIGGER action_plan_guard BEFORE INSERT OR UPDATE ON findings.action_plan FOR EACH ROW EXECUTE FUNCTION findings.guard_action_plan();
CREATE TRIGGER action_plan_guard_cancelled BEFORE INSERT OR UPDATE ON findings.action_plan FOR EACH ROW EXECUTE FUNCTION findings.guard_part_of_cancelled();
CREATE TRIGGER action_plan_guard_four_eyes BEFORE UPDATE ON findings.action_plan FOR EACH ROW WHEN ((new.verified_by IS NOT NULL)) EXECUTE FUNCTION findings.guard_four_eyes();
CREATE CONSTRAINT TRIGGER action_plan_logged_move AFTER UPDATE OF status ON findings.action_plan DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.status <> old.status)) EXECUTE FUNCTION findings.guard_logged_move();
CREATE TRIGGER action_plan_mark_overdue BEFORE INSERT OR UPDATE ON findings.action_plan FOR EACH ROW EXECUTE FUNCTION findings.mark_overdue();
CREATE CONSTRAINT TRIGGER action_plan_remediation_under_way AFTER UPDATE OF status ON findings.action_plan DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.status = 'approved'::text) AND (old.status <> 'approved'::text))) EXECUTE FUNCTION findings.guard_remediation_under_way();
CREATE TRIGGER note_deletes AFTER DELETE ON findings.action_plan REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('action_plan', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON findings.action_plan REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('action_plan', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON findings.action_plan REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('action_plan', 'id', 'r.version');
alter table findings.action_plan enable row level security;
alter table findings.action_plan force row level security;
create policy postern_findings_definer_select on findings.action_plan as permissive for select to postern_findings_definer using (true);
create policy postern_findings_definer_update on findings.action_plan as permissive for update to postern_findings_definer using (true) with check (true);
create policy postern_findings_insert on findings.action_plan as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.action_plan as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.action_plan as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.action_plan as restrictive for all to postern_findings, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.action_plan to postern_findings;
grant select, update on table findings.action_plan to postern_findings_definer;
comment on table findings.action_plan is 'What is done about a finding, by whom and until when.';
comment on column findings.action_plan.overdue_on is 'The due date with which the plan last became overdue';

create table findings.action_plan_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number integer not null,
  constraint action_plan_counter_pk PRIMARY KEY (tenant_id, year),
  constraint action_plan_counter_positive CHECK ((last_number > 0)),
  constraint action_plan_counter_year_known CHECK (((year >= 2000) AND (year <= 9999)))
);
alter table findings.action_plan_counter enable row level security;
alter table findings.action_plan_counter force row level security;
create policy postern_findings_insert on findings.action_plan_counter as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.action_plan_counter as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.action_plan_counter as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.action_plan_counter as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.action_plan_counter to postern_findings;
comment on table findings.action_plan_counter is 'The last number of AP-<year>-<number> that is used or free, one row a tenant and year.';

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
  created_at timestamp(3) with time zone not null default now(),
  constraint action_plan_extension_pk PRIMARY KEY (tenant_id, action_plan_id, number),
  constraint action_plan_extension_approved_by_is_object CHECK ((jsonb_typeof(approved_by) = 'object'::text)),
  constraint action_plan_extension_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint action_plan_extension_moves CHECK ((from_on <> to_on)),
  constraint action_plan_extension_reason_length CHECK (((char_length(reason) >= 1) AND (char_length(reason) <= 20000))),
  constraint action_plan_extension_reason_said CHECK ((reason ~ '\S'::text)),
  constraint action_plan_extension_plan_fk FOREIGN KEY (tenant_id, action_plan_id) REFERENCES findings.action_plan(tenant_id, id)
);
CREATE TRIGGER action_plan_extension_never_emptied BEFORE TRUNCATE ON findings.action_plan_extension FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER action_plan_extension_only_grows BEFORE DELETE OR UPDATE ON findings.action_plan_extension FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table findings.action_plan_extension enable row level security;
alter table findings.action_plan_extension force row level security;
create policy postern_findings_insert on findings.action_plan_extension as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.action_plan_extension as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.action_plan_extension as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.action_plan_extension to postern_findings;
comment on table findings.action_plan_extension is 'Each agreed change of a due date, with its reason and who agreed. Only grows.';

create table findings.action_plan_recommendation (
  tenant_id uuid not null,
  finding_id uuid not null,
  action_plan_id uuid not null,
  recommendation_id uuid not null,
  "position" smallint not null,
  constraint action_plan_recommendation_pk PRIMARY KEY (tenant_id, action_plan_id, recommendation_id),
  constraint action_plan_recommendation_position_unique UNIQUE (tenant_id, action_plan_id, "position"),
  constraint action_plan_recommendation_position_range CHECK ((("position" >= 1) AND ("position" <= 50))),
  constraint action_plan_recommendation_plan_fk FOREIGN KEY (tenant_id, finding_id, action_plan_id) REFERENCES findings.action_plan(tenant_id, finding_id, id),
  constraint action_plan_recommendation_recommendation_fk FOREIGN KEY (tenant_id, finding_id, recommendation_id) REFERENCES findings.recommendation(tenant_id, finding_id, id)
);
CREATE INDEX action_plan_recommendation_by_recommendation ON findings.action_plan_recommendation USING btree (tenant_id, recommendation_id, action_plan_id);
alter table findings.action_plan_recommendation enable row level security;
alter table findings.action_plan_recommendation force row level security;
create policy postern_findings_delete on findings.action_plan_recommendation as permissive for delete to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_insert on findings.action_plan_recommendation as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.action_plan_recommendation as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.action_plan_recommendation as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table findings.action_plan_recommendation to postern_findings;
comment on table findings.action_plan_recommendation is 'Which recommendations an action plan carries out, in the order named.';

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
  accepted_until date,
  accepted_by jsonb,
  validated_by jsonb,
  severity_order smallint not null generated always as (
CASE severity
    WHEN 'critical'::text THEN 1
    WHEN 'high'::text THEN 2
    WHEN 'medium'::text THEN 3
    ELSE 4
END) stored,
  overdue_on date,
  constraint finding_pk PRIMARY KEY (tenant_id, id),
  constraint finding_external_id_unique UNIQUE (tenant_id, external_id),
  constraint finding_number_unique UNIQUE (tenant_id, year, number),
  constraint finding_reference_unique UNIQUE (tenant_id, reference),
  constraint finding_acceptance_when_accepted CHECK (((((accepted_until IS NOT NULL) AND (accepted_by IS NOT NULL)) = (status = 'risk_accepted'::text)) AND ((accepted_until IS NULL) = (accepted_by IS NULL)))),
  constraint finding_accepted_by_is_object CHECK ((jsonb_typeof(accepted_by) = 'object'::text)),
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
  constraint finding_identified_not_in_future CHECK ((identified_on <= (((updated_at AT TIME ZONE 'UTC'::text))::date + 1))),
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
  constraint finding_validated_by_is_object CHECK ((jsonb_typeof(validated_by) = 'object'::text)),
  constraint finding_validation_when_closed CHECK (((validated_by IS NOT NULL) = (status = 'closed'::text))),
  constraint finding_version_positive CHECK ((version > 0)),
  constraint finding_repeat_of_fk FOREIGN KEY (tenant_id, repeat_of_id) REFERENCES findings.finding(tenant_id, id)
);
CREATE INDEX finding_becoming_overdue ON findings.finding USING btree (target_on, tenant_id, id) WHERE ((status <> ALL (ARRAY['closed'::text, 'risk_accepted'::text, 'cancelled'::text])) AND (overdue_on IS DISTINCT FROM target_on));
CREATE INDEX finding_by_accepted_until ON findings.finding USING btree (tenant_id, accepted_until) WHERE (status = 'risk_accepted'::text);
CREATE INDEX finding_by_created_at ON findings.finding USING btree (tenant_id, created_at, id);
CREATE INDEX finding_by_repeat_of ON findings.finding USING btree (tenant_id, repeat_of_id) WHERE (repeat_of_id IS NOT NULL);
CREATE INDEX finding_by_severity ON findings.finding USING btree (tenant_id, severity_rank, id);
CREATE INDEX finding_by_severity_and_target ON findings.finding USING btree (tenant_id, severity_order, target_on, id);
CREATE INDEX finding_by_target_on ON findings.finding USING btree (tenant_id, target_on, id);
CREATE INDEX finding_by_updated_at ON findings.finding USING btree (tenant_id, updated_at, id);
CREATE CONSTRAINT TRIGGER finding_closing_evidence AFTER UPDATE OF status, severity ON findings.finding DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.status = 'closed'::text) AND (new.severity = ANY (ARRAY['critical'::text, 'high'::text])) AND ((old.status <> 'closed'::text) OR (old.severity <> ALL (ARRAY['critical'::text, 'high'::text]))))) EXECUTE FUNCTION findings.guard_closing_evidence();
CREATE CONSTRAINT TRIGGER finding_entity_before_open AFTER INSERT OR UPDATE OF status ON findings.finding DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.status <> ALL (ARRAY['draft'::text, 'cancelled'::text]))) EXECUTE FUNCTION findings.guard_finding_has_entity();
CREATE TRIGGER finding_guard BEFORE INSERT OR UPDATE ON findings.finding FOR EACH ROW EXECUTE FUNCTION findings.guard_finding();
CREATE TRIGGER finding_guard_condition BEFORE INSERT OR UPDATE ON findings.finding FOR EACH ROW WHEN ((new.condition ~ '^\s+$'::text)) EXECUTE FUNCTION findings.guard_condition();
CREATE TRIGGER finding_guard_four_eyes BEFORE UPDATE ON findings.finding FOR EACH ROW WHEN ((new.validated_by IS NOT NULL)) EXECUTE FUNCTION findings.guard_four_eyes();
CREATE TRIGGER finding_guard_plans_done BEFORE UPDATE OF status ON findings.finding FOR EACH ROW WHEN (((new.status = 'closed'::text) AND (old.status <> 'closed'::text))) EXECUTE FUNCTION findings.guard_plans_done();
CREATE TRIGGER finding_guard_rejected BEFORE UPDATE OF status ON findings.finding FOR EACH ROW WHEN (((new.status <> old.status) AND (new.status = ANY (ARRAY['pending_validation'::text, 'closed'::text])))) EXECUTE FUNCTION findings.guard_rejected_recommendations();
CREATE CONSTRAINT TRIGGER finding_logged_move AFTER UPDATE OF status ON findings.finding DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.status <> old.status)) EXECUTE FUNCTION findings.guard_logged_move();
CREATE TRIGGER finding_mark_overdue BEFORE INSERT OR UPDATE ON findings.finding FOR EACH ROW EXECUTE FUNCTION findings.mark_overdue();
CREATE CONSTRAINT TRIGGER finding_remediation_under_way AFTER UPDATE OF status ON findings.finding DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.status = 'open'::text) AND (old.status <> 'open'::text))) EXECUTE FUNCTION findings.guard_remediation_under_way();
CREATE TRIGGER finding_repeat_change_guard BEFORE UPDATE OF repeat_of_id ON findings.finding FOR EACH ROW WHEN (((new.repeat_of_id IS NOT NULL) AND (new.repeat_of_id IS DISTINCT FROM old.repeat_of_id))) EXECUTE FUNCTION findings.guard_repeat();
CREATE TRIGGER finding_repeat_guard BEFORE INSERT ON findings.finding FOR EACH ROW WHEN ((new.repeat_of_id IS NOT NULL)) EXECUTE FUNCTION findings.guard_repeat();
CREATE TRIGGER note_deletes AFTER DELETE ON findings.finding REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON findings.finding REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON findings.finding REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('finding', 'id', 'r.version');
alter table findings.finding enable row level security;
alter table findings.finding force row level security;
create policy postern_findings_definer_select on findings.finding as permissive for select to postern_findings_definer using (true);
create policy postern_findings_definer_update on findings.finding as permissive for update to postern_findings_definer using (true) with check (true);
create policy postern_findings_insert on findings.finding as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.finding as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.finding as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.finding as restrictive for all to postern_findings, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.finding to postern_findings;
grant select, update on table findings.finding to postern_findings_definer;
comment on table findings.finding is 'A finding: condition, criteria, cause, consequence, corrective action, and its state.';
comment on column findings.finding.year is 'Year (UTC) in which the finding was documented; not that of identified_on.';
comment on column findings.finding.severity_rank is 'The order of severity, for sorting: critical is 4.';
comment on column findings.finding.created_at is 'Milliseconds, as clients see it, so that a page can begin exactly behind a row.';
comment on column findings.finding.severity_order is 'The reverse of severity_rank: critical is 1.';
comment on column findings.finding.overdue_on is 'The target date with which the finding last became overdue';

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
CREATE CONSTRAINT TRIGGER finding_entity_last AFTER DELETE ON findings.finding_entity DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION findings.guard_last_entity();
alter table findings.finding_entity enable row level security;
alter table findings.finding_entity force row level security;
create policy postern_findings_delete on findings.finding_entity as permissive for delete to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_insert on findings.finding_entity as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.finding_entity as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.finding_entity as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table findings.finding_entity to postern_findings;
comment on table findings.finding_entity is 'The auditable entities that a finding concerns, in the order in which they were named. The universe owns the entities.';

create table findings.free_number (
  tenant_id uuid not null,
  series text not null,
  year integer not null,
  number integer not null,
  constraint free_number_pk PRIMARY KEY (tenant_id, series, year, number),
  constraint free_number_positive CHECK ((number > 0)),
  constraint free_number_series_known CHECK ((series = ANY (ARRAY['finding'::text, 'action_plan'::text])))
);
alter table findings.free_number enable row level security;
alter table findings.free_number force row level security;
create policy postern_findings_delete on findings.free_number as permissive for delete to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_insert on findings.free_number as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.free_number as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.free_number as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.free_number as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table findings.free_number to postern_findings;
comment on table findings.free_number is 'Numbers up to that of the counter that no finding or action plan has yet. They are added before a creation begins.';

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

create table findings.log_checkpoint (
  tenant_id uuid not null,
  day date not null,
  "position" bigint not null,
  root text not null,
  jws text not null,
  created_at timestamp(3) with time zone not null default now(),
  constraint log_checkpoint_pk PRIMARY KEY (tenant_id, day),
  constraint log_checkpoint_position_fk FOREIGN KEY (tenant_id, "position") REFERENCES findings.tracker_log(tenant_id, "position")
);
CREATE TRIGGER log_checkpoint_never_emptied BEFORE TRUNCATE ON findings.log_checkpoint FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER log_checkpoint_only_grows BEFORE DELETE OR UPDATE ON findings.log_checkpoint FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table findings.log_checkpoint enable row level security;
alter table findings.log_checkpoint force row level security;
create policy postern_findings_insert on findings.log_checkpoint as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.log_checkpoint as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.log_checkpoint as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.log_checkpoint to postern_findings;
comment on table findings.log_checkpoint is 'The signed end of a tenant''s log, one for each day on which something was written: made when the next day writes.';

create table findings.log_end (
  tenant_id uuid not null,
  "position" bigint not null,
  root text not null,
  day date not null,
  jws text not null,
  constraint log_end_pk PRIMARY KEY (tenant_id),
  constraint log_end_root_form CHECK ((root ~ '^[0-9a-f]{64}$'::text)),
  constraint log_end_position_fk FOREIGN KEY (tenant_id, "position") REFERENCES findings.tracker_log(tenant_id, "position")
);
CREATE TRIGGER log_end_is_never_emptied BEFORE TRUNCATE ON findings.log_end FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER log_end_moves_on BEFORE UPDATE ON findings.log_end FOR EACH ROW WHEN (((new.tenant_id <> old.tenant_id) OR (new."position" <= old."position") OR (new.day < old.day))) EXECUTE FUNCTION findings.guard_log_end();
CREATE TRIGGER log_end_stays BEFORE DELETE ON findings.log_end FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table findings.log_end enable row level security;
alter table findings.log_end force row level security;
create policy postern_findings_insert on findings.log_end as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.log_end as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.log_end as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.log_end as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.log_end to postern_findings;
comment on table findings.log_end is 'The end of a tenant''s log as its last writer has signed it: the checkpoint of its day once the day is over. Only moves on.';

create table findings.overdue_notice (
  tenant_id uuid not null,
  kind text not null,
  resource_id uuid not null,
  due_on date not null,
  noted_at timestamp with time zone not null default now(),
  constraint overdue_notice_pk PRIMARY KEY (tenant_id, kind, resource_id, due_on),
  constraint overdue_notice_kind_known CHECK ((kind = ANY (ARRAY['finding'::text, 'action_plan'::text])))
);
CREATE TRIGGER notes_action_plan AFTER INSERT ON findings.overdue_notice FOR EACH ROW WHEN ((new.kind = 'action_plan'::text)) EXECUTE FUNCTION tenancy.note_event('resource_id', 'action_plan.became_overdue');
CREATE TRIGGER notes_finding AFTER INSERT ON findings.overdue_notice FOR EACH ROW WHEN ((new.kind = 'finding'::text)) EXECUTE FUNCTION tenancy.note_event('resource_id', 'finding.became_overdue');
alter table findings.overdue_notice enable row level security;
alter table findings.overdue_notice force row level security;
create policy postern_findings_definer_insert on findings.overdue_notice as permissive for insert to postern_findings_definer with check (true);
create policy postern_findings_definer_select on findings.overdue_notice as permissive for select to postern_findings_definer using (true);
create policy tenant_only on findings.overdue_notice as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.overdue_notice to postern_findings_definer;

create table findings.recommendation (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  finding_id uuid not null,
  number smallint not null,
  reference text not null,
  external_id text,
  text text not null,
  priority text not null,
  response text not null default 'pending'::text,
  response_rationale text,
  status text not null default 'submitted'::text,
  custom jsonb not null default '{}'::jsonb,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  constraint recommendation_pk PRIMARY KEY (tenant_id, id),
  constraint recommendation_external_id_unique UNIQUE (tenant_id, external_id),
  constraint recommendation_number_unique UNIQUE (tenant_id, finding_id, number),
  constraint recommendation_of_finding_unique UNIQUE (tenant_id, finding_id, id),
  constraint recommendation_reference_unique UNIQUE (tenant_id, reference),
  constraint recommendation_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint recommendation_custom_is_object CHECK ((jsonb_typeof(custom) = 'object'::text)),
  constraint recommendation_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint recommendation_number_range CHECK (((number >= 1) AND (number <= 1000))),
  constraint recommendation_priority_known CHECK ((priority = ANY (ARRAY['high'::text, 'medium'::text, 'low'::text]))),
  constraint recommendation_rationale_length CHECK ((char_length(response_rationale) <= 20000)),
  constraint recommendation_rejection_has_reasons CHECK (((response <> 'rejected'::text) OR (btrim(COALESCE(response_rationale, ''::text)) <> ''::text))),
  constraint recommendation_response_known CHECK ((response = ANY (ARRAY['pending'::text, 'accepted'::text, 'partially_accepted'::text, 'rejected'::text]))),
  constraint recommendation_status_fits_response CHECK (((status = 'superseded'::text) OR (((response = 'pending'::text) = (status = 'submitted'::text)) AND ((response = 'rejected'::text) = (status = 'rejected'::text))))),
  constraint recommendation_status_known CHECK ((status = ANY (ARRAY['submitted'::text, 'accepted'::text, 'rejected'::text, 'implemented'::text, 'verified'::text, 'superseded'::text]))),
  constraint recommendation_text_length CHECK (((char_length(text) >= 1) AND (char_length(text) <= 20000))),
  constraint recommendation_version_positive CHECK ((version > 0)),
  constraint recommendation_finding_fk FOREIGN KEY (tenant_id, finding_id) REFERENCES findings.finding(tenant_id, id)
);
CREATE INDEX recommendation_by_created_at ON findings.recommendation USING btree (tenant_id, created_at, id);
CREATE INDEX recommendation_by_updated_at ON findings.recommendation USING btree (tenant_id, updated_at, id);
CREATE TRIGGER note_deletes AFTER DELETE ON findings.recommendation REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('recommendation', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON findings.recommendation REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('recommendation', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON findings.recommendation REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('recommendation', 'id', 'r.version');
CREATE TRIGGER recommendation_guard BEFORE INSERT OR UPDATE ON findings.recommendation FOR EACH ROW EXECUTE FUNCTION findings.guard_recommendation();
CREATE TRIGGER recommendation_guard_cancelled BEFORE INSERT OR UPDATE ON findings.recommendation FOR EACH ROW EXECUTE FUNCTION findings.guard_part_of_cancelled();
CREATE TRIGGER recommendation_guard_carried_out BEFORE UPDATE OF status ON findings.recommendation FOR EACH ROW WHEN (((new.status <> old.status) AND (new.status = ANY (ARRAY['accepted'::text, 'implemented'::text, 'verified'::text])))) EXECUTE FUNCTION findings.guard_carried_out();
CREATE CONSTRAINT TRIGGER recommendation_logged_move AFTER UPDATE OF status ON findings.recommendation DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.status <> old.status)) EXECUTE FUNCTION findings.guard_logged_move();
alter table findings.recommendation enable row level security;
alter table findings.recommendation force row level security;
create policy postern_findings_insert on findings.recommendation as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.recommendation as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.recommendation as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.recommendation as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table findings.recommendation to postern_findings;
comment on table findings.recommendation is 'What is recommended about a finding, numbered within it, and what became of it.';

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
comment on table findings.reference_counter is 'The last number of F-<year>-<number> that is used or free, one row a tenant and year.';

create table findings.tracker_log (
  tenant_id uuid not null,
  "position" bigint not null,
  finding_id uuid not null,
  seq integer not null,
  action_plan_id uuid,
  recommendation_id uuid,
  kind text not null,
  actor_type text not null,
  actor_id text not null,
  has_evidence boolean not null,
  recorded_at timestamp(3) with time zone not null,
  entry text not null,
  hash text not null,
  root text not null,
  arrived_at pg_lsn,
  constraint tracker_log_pk PRIMARY KEY (tenant_id, "position"),
  constraint tracker_log_seq_unique UNIQUE (tenant_id, finding_id, seq),
  constraint tracker_log_actor_type_known CHECK ((actor_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text, 'system'::text]))),
  constraint tracker_log_kind_known CHECK ((kind = ANY (ARRAY['created'::text, 'note'::text, 'status_change'::text, 'due_date_change'::text, 'owner_change'::text, 'progress'::text, 'evidence_linked'::text, 'field_change'::text, 'validation'::text, 'escalation'::text, 'correction'::text, 'system'::text]))),
  constraint tracker_log_finding_fk FOREIGN KEY (tenant_id, finding_id) REFERENCES findings.finding(tenant_id, id),
  constraint tracker_log_plan_fk FOREIGN KEY (tenant_id, finding_id, action_plan_id) REFERENCES findings.action_plan(tenant_id, finding_id, id),
  constraint tracker_log_recommendation_fk FOREIGN KEY (tenant_id, finding_id, recommendation_id) REFERENCES findings.recommendation(tenant_id, finding_id, id)
);
CREATE INDEX tracker_log_with_evidence ON findings.tracker_log USING btree (tenant_id, finding_id) WHERE has_evidence;
CREATE TRIGGER note_deletes AFTER DELETE ON findings.tracker_log REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('log_entry', 'finding_id', 'null');
CREATE TRIGGER note_inserts AFTER INSERT ON findings.tracker_log REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('log_entry', 'finding_id', 'null');
CREATE TRIGGER tracker_log_chain BEFORE INSERT ON findings.tracker_log FOR EACH ROW EXECUTE FUNCTION findings.chain_log_entry();
CREATE TRIGGER tracker_log_never_emptied BEFORE TRUNCATE ON findings.tracker_log FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER tracker_log_only_grows BEFORE DELETE ON findings.tracker_log FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER tracker_log_places_once BEFORE UPDATE ON findings.tracker_log FOR EACH ROW EXECUTE FUNCTION findings.place_log_entry();
alter table findings.tracker_log enable row level security;
alter table findings.tracker_log force row level security;
create policy postern_findings_insert on findings.tracker_log as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_select on findings.tracker_log as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_findings_update on findings.tracker_log as permissive for update to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on findings.tracker_log as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table findings.tracker_log to postern_findings;
grant update ("position") on table findings.tracker_log to postern_findings;
comment on table findings.tracker_log is 'What happened to a finding and its plans. Only grows: each entry holds the hash of the one before it.';
comment on column findings.tracker_log."position" is 'Counts the entries of the tenant in the order of their commits. Some negative number while an entry waits for its place.';
comment on column findings.tracker_log.entry is 'The entry as canonical JSON (RFC 8785), the very text that is hashed. The columns beside it are taken from it.';
comment on column findings.tracker_log.root is 'SHA-256 over the root before (at first 64 zeros) and the hash, both as text. Empty while the entry waits for its place.';

CREATE OR REPLACE FUNCTION findings.chain_log_entry()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_action_plan()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_carried_out()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_closing_evidence()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if not findings.has_fresh_evidence(new.tenant_id, new.id) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_closed_with_evidence',
      message = 'a critical or high finding is closed with evidence';
  end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION findings.guard_condition()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if tg_op = 'INSERT' or new.condition <> old.condition or old.status = 'draft' and new.status = 'open' then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_condition_said',
      message = 'the condition of a finding says something';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION findings.guard_finding()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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

CREATE OR REPLACE FUNCTION findings.guard_four_eyes()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_last_entity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_log_end()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  raise exception using
    errcode = 'check_violation', schema = 'findings', table = 'log_end', constraint = 'log_end_moves_on',
    message = 'the signed end of a log only moves on';
end
$function$;

CREATE OR REPLACE FUNCTION findings.guard_logged_move()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_part_of_cancelled()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_plans_done()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_recommendation()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_rejected_recommendations()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_remediation_under_way()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.guard_repeat()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.has_fresh_evidence(tenant uuid, finding uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
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
$function$;
grant execute on routine findings.has_fresh_evidence(uuid,uuid) to postern_findings;

CREATE OR REPLACE FUNCTION findings.is_another_person(a jsonb, b jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO ''
AS $function$
  select case
    when a ->> 'person_id' = b ->> 'person_id' or lower(a ->> 'email') = lower(b ->> 'email') then false
    when a ->> 'person_id' <> b ->> 'person_id' or lower(a ->> 'email') <> lower(b ->> 'email') then true
    else coalesce(
      lower(regexp_replace(btrim(a ->> 'name'), '\s+', ' ', 'g'))
        <> lower(regexp_replace(btrim(b ->> 'name'), '\s+', ' ', 'g')),
      false)
  end
$function$;
grant execute on routine findings.is_another_person(jsonb,jsonb) to postern_findings;

CREATE OR REPLACE FUNCTION findings.log_end_of(tenant uuid, OUT "position" bigint, OUT root text)
 RETURNS record
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  -- tracker_log_pk, backwards
  select l.position, l.root
  from findings.tracker_log l
  where l.tenant_id = tenant and l.position > 0
  order by l.position desc
  limit 1
$function$;
grant execute on routine findings.log_end_of(uuid) to postern_findings;

CREATE OR REPLACE FUNCTION findings.mark_overdue()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.note_overdue()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
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
$function$;
alter routine findings.note_overdue() owner to postern_findings_definer;
grant execute on routine findings.note_overdue() to postern_findings;

CREATE OR REPLACE FUNCTION findings.place_log_entries(most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;
grant execute on routine findings.place_log_entries(integer) to postern_findings;

CREATE OR REPLACE FUNCTION findings.place_log_entry()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION findings.status_by_plans(plans text[])
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO ''
AS $function$
  select case
    when cardinality(live) = 0 then null
    when live <@ array['verified'] then 'verified'
    when live <@ array['implemented', 'verified'] then 'implemented'
    else 'accepted'
  end
  from (values (array_remove(array_remove(plans, 'rejected'), 'cancelled'))) as those (live)
$function$;
grant execute on routine findings.status_by_plans(text[]) to postern_findings;
