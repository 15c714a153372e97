create schema evidence authorization postern_owner;
grant usage on schema evidence to postern_evidence;
grant usage on schema evidence to postern_evidence_definer;

create table evidence.attachment (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  file_id uuid not null,
  test_procedure text not null,
  note text,
  attached_at timestamp with time zone not null,
  attached_by_type text not null,
  attached_by_id text not null,
  attached_by_label text not null,
  constraint attachment_pk PRIMARY KEY (tenant_id, id),
  constraint attachment_once UNIQUE (tenant_id, file_id, test_procedure),
  constraint attachment_attached_by_type_known CHECK ((attached_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint attachment_note_length CHECK (((char_length(note) >= 1) AND (char_length(note) <= 2000))),
  constraint attachment_test_procedure_form CHECK ((test_procedure ~ '^(ref:[A-Z]{1,4}-[0-9A-Z.-]{1,40}|ext:.{1,255}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$'::text)),
  constraint attachment_file_fk FOREIGN KEY (tenant_id, file_id) REFERENCES evidence.file(tenant_id, id)
);
CREATE INDEX attachment_test_procedure ON evidence.attachment USING btree (tenant_id, test_procedure, file_id);
CREATE TRIGGER attachment_at_most AFTER INSERT ON evidence.attachment REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION evidence.guard_attachments();
CREATE TRIGGER attachment_is_never_emptied BEFORE TRUNCATE ON evidence.attachment FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER attachment_never_changes BEFORE DELETE OR UPDATE ON evidence.attachment FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER count_new_links AFTER INSERT ON evidence.attachment REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.count_new_links('evidence', 'test_procedure');
alter table evidence.attachment enable row level security;
alter table evidence.attachment force row level security;
create policy postern_evidence_insert on evidence.attachment as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.attachment as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.attachment as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table evidence.attachment to postern_evidence;
comment on table evidence.attachment is 'For which test procedures a file is evidence. Append-only.';

create table evidence.custody_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  file_id uuid,
  kind text not null,
  occurred_at timestamp with time zone not null default clock_timestamp(),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  request_id text not null,
  upload_id uuid,
  detail jsonb not null default '{}'::jsonb,
  constraint custody_event_pk PRIMARY KEY (tenant_id, id),
  constraint custody_event_actor_type_known CHECK ((actor_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint custody_event_detail_is_object CHECK ((jsonb_typeof(detail) = 'object'::text)),
  constraint custody_event_has_subject CHECK (
CASE
    WHEN (kind = ANY (ARRAY['upload_begun'::text, 'upload_given_up'::text])) THEN ((file_id IS NULL) AND (upload_id IS NOT NULL))
    ELSE (file_id IS NOT NULL)
END),
  constraint custody_event_kind_known CHECK ((kind = ANY (ARRAY['upload_begun'::text, 'upload_given_up'::text, 'received'::text, 'hashed'::text, 'scanned'::text, 'quarantined'::text, 'attached'::text, 'released'::text, 'reviewed'::text, 'rejected'::text, 'viewed'::text, 'legal_hold_set'::text, 'legal_hold_lifted'::text, 'purged'::text]))),
  constraint custody_event_file_fk FOREIGN KEY (tenant_id, file_id) REFERENCES evidence.file(tenant_id, id)
);
CREATE INDEX custody_event_file ON evidence.custody_event USING btree (tenant_id, file_id, id);
CREATE INDEX custody_event_upload ON evidence.custody_event USING btree (tenant_id, upload_id, id) WHERE (upload_id IS NOT NULL);
CREATE TRIGGER audits_custody AFTER INSERT ON evidence.custody_event FOR EACH ROW WHEN ((new.kind = ANY (ARRAY['received'::text, 'viewed'::text, 'quarantined'::text, 'attached'::text, 'released'::text, 'reviewed'::text, 'rejected'::text, 'legal_hold_set'::text, 'legal_hold_lifted'::text, 'purged'::text]))) EXECUTE FUNCTION evidence.audit_custody_event();
CREATE TRIGGER custody_event_is_never_emptied BEFORE TRUNCATE ON evidence.custody_event FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER custody_event_never_changes BEFORE DELETE OR UPDATE ON evidence.custody_event FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER notes_quarantined AFTER INSERT ON evidence.custody_event FOR EACH ROW WHEN ((new.kind = 'quarantined'::text)) EXECUTE FUNCTION tenancy.note_event('file_id', 'evidence.quarantined');
CREATE TRIGGER notes_received AFTER INSERT ON evidence.custody_event FOR EACH ROW WHEN ((new.kind = 'received'::text)) EXECUTE FUNCTION tenancy.note_event('file_id', 'evidence.uploaded');
alter table evidence.custody_event enable row level security;
alter table evidence.custody_event force row level security;
create policy postern_evidence_insert on evidence.custody_event as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.custody_event as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.custody_event as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table evidence.custody_event to postern_evidence;
comment on table evidence.custody_event is 'Who had a file in hand, and when. Append-only: no role may update or delete.';
comment on column evidence.custody_event.file_id is 'Null for an upload that is not a file yet, or never became one.';
comment on column evidence.custody_event.upload_id is 'The resumable upload that it is about, or by which the file came. Its row goes; this stays.';

create table evidence.file (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  reference text not null,
  file_name text not null,
  content_type text not null,
  detected_content_type text,
  size_bytes bigint not null,
  sha256 text not null,
  test_procedures text[] not null,
  scan text not null,
  received_at timestamp with time zone not null,
  receipt_jws text not null,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  evidence_date date,
  period_start date,
  period_end date,
  source_system text,
  collection_method text,
  collected_by jsonb,
  collected_at timestamp with time zone,
  query_text text,
  classification text not null default 'confidential'::text,
  description text,
  version_of uuid,
  revision integer not null default 1,
  malware text,
  retention_until date not null,
  constraint file_pk PRIMARY KEY (tenant_id, id),
  constraint file_reference_unique UNIQUE (tenant_id, reference),
  constraint file_version_unique UNIQUE (tenant_id, version_of),
  constraint file_classification_known CHECK ((classification = ANY (ARRAY['public'::text, 'internal'::text, 'confidential'::text, 'restricted'::text]))),
  constraint file_collected_by_is_object CHECK ((jsonb_typeof(collected_by) = 'object'::text)),
  constraint file_collection_method_known CHECK ((collection_method = ANY (ARRAY['manual'::text, 'api_export'::text, 'screenshot'::text, 'query'::text, 'report'::text, 'log'::text]))),
  constraint file_content_type_length CHECK (((char_length(content_type) >= 1) AND (char_length(content_type) <= 255))),
  constraint file_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint file_description_length CHECK (((char_length(description) >= 1) AND (char_length(description) <= 5000))),
  constraint file_malware_length CHECK (((char_length(malware) >= 1) AND (char_length(malware) <= 200))),
  constraint file_malware_of_infected CHECK (((scan = 'infected'::text) = (malware IS NOT NULL))),
  constraint file_name_length CHECK (((char_length(file_name) >= 1) AND (char_length(file_name) <= 255))),
  constraint file_period_order CHECK ((period_start <= period_end)),
  constraint file_query_text_length CHECK (((char_length(query_text) >= 1) AND (char_length(query_text) <= 10000))),
  constraint file_reference_form CHECK ((reference ~ '^EV-[0-9]{4}-[0-9]{6,}$'::text)),
  constraint file_retention_follows_receipt CHECK ((retention_until > ((received_at AT TIME ZONE 'UTC'::text))::date)),
  constraint file_revision_counts CHECK ((((version_of IS NULL) AND (revision = 1)) OR ((version_of IS NOT NULL) AND (revision > 1)))),
  constraint file_scan_known CHECK ((scan = ANY (ARRAY['not_configured'::text, 'clean'::text, 'infected'::text, 'limits_exceeded'::text]))),
  constraint file_sha256_form CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint file_size_positive CHECK ((size_bytes > 0)),
  constraint file_source_system_length CHECK (((char_length(source_system) >= 1) AND (char_length(source_system) <= 255))),
  constraint file_test_procedures_count CHECK ((cardinality(test_procedures) <= 50)),
  constraint file_version_fk FOREIGN KEY (tenant_id, version_of) REFERENCES evidence.file(tenant_id, id)
);
CREATE INDEX file_infected ON evidence.file USING btree (tenant_id, id) WHERE (scan = 'infected'::text);
CREATE INDEX file_sha256 ON evidence.file USING btree (tenant_id, sha256);
CREATE TRIGGER file_is_never_emptied BEFORE TRUNCATE ON evidence.file FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER file_never_changes BEFORE DELETE OR UPDATE ON evidence.file FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table evidence.file enable row level security;
alter table evidence.file force row level security;
create policy postern_evidence_definer_select on evidence.file as permissive for select to postern_evidence_definer using (true);
create policy postern_evidence_insert on evidence.file as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.file as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.file as restrictive for all to postern_evidence, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table evidence.file to postern_evidence;
grant select (tenant_id) on table evidence.file to postern_evidence_definer;
grant select (id) on table evidence.file to postern_evidence_definer;
grant select (sha256) on table evidence.file to postern_evidence_definer;
comment on table evidence.file is 'One upload. Several files of a tenant may share the same bytes: sha256 names the blob.';
comment on column evidence.file.scan is 'What the scanner said when the file came. An infected file is in quarantine: it is evidence of nothing.';
comment on column evidence.file.evidence_date is 'The day that the evidence speaks of, as the sender says.';
comment on column evidence.file.version_of is 'The file that this one replaces.';
comment on column evidence.file.malware is 'What the scanner has found, by its name.';
comment on column evidence.file.retention_until is 'The file is kept until this day at least.';

create table evidence.file_decision (
  tenant_id uuid not null,
  file_id uuid not null,
  kind text not null,
  reason text not null,
  decided_at timestamp(3) with time zone not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint file_decision_pk PRIMARY KEY (tenant_id, file_id, kind),
  constraint file_decision_by_person CHECK ((decided_by_type = ANY (ARRAY['user'::text, 'operator'::text]))),
  constraint file_decision_kind_known CHECK ((kind = ANY (ARRAY['released'::text, 'reviewed'::text, 'rejected'::text, 'purged'::text]))),
  constraint file_decision_reason_length CHECK (((char_length(reason) >= 1) AND (char_length(reason) <= 2000))),
  constraint file_decision_file_fk FOREIGN KEY (tenant_id, file_id) REFERENCES evidence.file(tenant_id, id)
);
CREATE UNIQUE INDEX file_decision_one_verdict ON evidence.file_decision USING btree (tenant_id, file_id) WHERE (kind = ANY (ARRAY['reviewed'::text, 'rejected'::text]));
CREATE TRIGGER file_decision_guard BEFORE INSERT ON evidence.file_decision FOR EACH ROW EXECUTE FUNCTION evidence.guard_file_decision();
CREATE TRIGGER file_decision_guard_verdict BEFORE INSERT ON evidence.file_decision FOR EACH ROW WHEN ((new.kind = ANY (ARRAY['reviewed'::text, 'rejected'::text]))) EXECUTE FUNCTION evidence.guard_verdict();
CREATE TRIGGER file_decision_is_never_emptied BEFORE TRUNCATE ON evidence.file_decision FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER file_decision_never_changes BEFORE DELETE OR UPDATE ON evidence.file_decision FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table evidence.file_decision enable row level security;
alter table evidence.file_decision force row level security;
create policy postern_evidence_definer_select on evidence.file_decision as permissive for select to postern_evidence_definer using (true);
create policy postern_evidence_insert on evidence.file_decision as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.file_decision as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.file_decision as restrictive for all to postern_evidence, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table evidence.file_decision to postern_evidence;
grant select (tenant_id) on table evidence.file_decision to postern_evidence_definer;
grant select (file_id) on table evidence.file_decision to postern_evidence_definer;
grant select (kind) on table evidence.file_decision to postern_evidence_definer;
comment on table evidence.file_decision is 'What a person has decided about a file. Append-only: no role may update or delete.';

create table evidence.free_number (
  tenant_id uuid not null,
  series text not null,
  year integer not null,
  number bigint not null,
  constraint free_number_pk PRIMARY KEY (tenant_id, series, year, number),
  constraint free_number_positive CHECK ((number > 0)),
  constraint free_number_series_known CHECK ((series = 'evidence'::text))
);
alter table evidence.free_number enable row level security;
alter table evidence.free_number force row level security;
create policy postern_evidence_delete on evidence.free_number as permissive for delete to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_insert on evidence.free_number as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.free_number as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.free_number as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.free_number as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table evidence.free_number to postern_evidence;
comment on table evidence.free_number is 'Numbers up to that of the counter that no file has yet. They are added before an upload is recorded.';

create table evidence.idempotency_record (
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
CREATE INDEX idempotency_record_by_claimed_at ON evidence.idempotency_record USING btree (tenant_id, claimed_at);
alter table evidence.idempotency_record enable row level security;
alter table evidence.idempotency_record force row level security;
create policy postern_evidence_delete on evidence.idempotency_record as permissive for delete to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_insert on evidence.idempotency_record as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.idempotency_record as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.idempotency_record as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.idempotency_record as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table evidence.idempotency_record to postern_evidence;
comment on table evidence.idempotency_record is 'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.';
comment on column evidence.idempotency_record.slot is 'SHA-256 over principal, route and key: what a client has written is not kept.';
comment on column evidence.idempotency_record.fingerprint is 'SHA-256 over what the request said: another one under the same key is told from a repetition.';
comment on column evidence.idempotency_record.claim_id is 'Who may write the answer. It changes when the request is taken over.';

create table evidence.legal_hold (
  tenant_id uuid not null,
  file_id uuid not null,
  number integer not null,
  kind text not null,
  reason text not null,
  decided_at timestamp(3) with time zone not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint legal_hold_pk PRIMARY KEY (tenant_id, file_id, number),
  constraint legal_hold_by_person CHECK ((decided_by_type = ANY (ARRAY['user'::text, 'operator'::text]))),
  constraint legal_hold_in_turn CHECK ((kind =
CASE (number % 2)
    WHEN 1 THEN 'set'::text
    ELSE 'lifted'::text
END)),
  constraint legal_hold_number_positive CHECK ((number > 0)),
  constraint legal_hold_reason_length CHECK (((char_length(reason) >= 1) AND (char_length(reason) <= 2000))),
  constraint legal_hold_file_fk FOREIGN KEY (tenant_id, file_id) REFERENCES evidence.file(tenant_id, id)
);
CREATE TRIGGER legal_hold_guard BEFORE INSERT ON evidence.legal_hold FOR EACH ROW EXECUTE FUNCTION evidence.guard_legal_hold();
CREATE TRIGGER legal_hold_is_never_emptied BEFORE TRUNCATE ON evidence.legal_hold FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER legal_hold_never_changes BEFORE DELETE OR UPDATE ON evidence.legal_hold FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table evidence.legal_hold enable row level security;
alter table evidence.legal_hold force row level security;
create policy postern_evidence_insert on evidence.legal_hold as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.legal_hold as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.legal_hold as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table evidence.legal_hold to postern_evidence;
comment on table evidence.legal_hold is 'Legal holds on files, set and lifted in turn. Append-only: no role may update or delete.';

create table evidence.policy (
  tenant_id uuid not null,
  retention_years integer not null,
  version integer not null default 1,
  changed_at timestamp(3) with time zone not null default clock_timestamp(),
  changed_by_type text not null,
  changed_by_id text not null,
  changed_by_label text not null,
  constraint policy_pk PRIMARY KEY (tenant_id),
  constraint policy_by_person CHECK ((changed_by_type = ANY (ARRAY['user'::text, 'operator'::text]))),
  constraint policy_retention_years_range CHECK (((retention_years >= 1) AND (retention_years <= 100))),
  constraint policy_version_positive CHECK ((version > 0))
);
alter table evidence.policy enable row level security;
alter table evidence.policy force row level security;
create policy postern_evidence_insert on evidence.policy as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.policy as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.policy as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.policy as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table evidence.policy to postern_evidence;
comment on table evidence.policy is 'How long a tenant keeps evidence, from the day of receipt. Without a row: seven years.';

create table evidence.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number bigint not null,
  constraint reference_counter_pk PRIMARY KEY (tenant_id, year),
  constraint reference_counter_positive CHECK ((last_number > 0))
);
alter table evidence.reference_counter enable row level security;
alter table evidence.reference_counter force row level security;
create policy postern_evidence_insert on evidence.reference_counter as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.reference_counter as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.reference_counter as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.reference_counter as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table evidence.reference_counter to postern_evidence;
comment on table evidence.reference_counter is 'The last number of EV-<year>-<number> that is used or free, one row a tenant and year.';

create table evidence.tenant_usage (
  tenant_id uuid not null,
  bytes bigint not null,
  files bigint not null,
  constraint tenant_usage_pk PRIMARY KEY (tenant_id),
  constraint tenant_usage_not_negative CHECK (((bytes >= 0) AND (files >= 0)))
);
alter table evidence.tenant_usage enable row level security;
alter table evidence.tenant_usage force row level security;
create policy postern_evidence_insert on evidence.tenant_usage as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.tenant_usage as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.tenant_usage as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.tenant_usage as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table evidence.tenant_usage to postern_evidence;
comment on table evidence.tenant_usage is 'What a tenant keeps, every file counted: were shared bytes counted once, a quota would tell a sender what others have sent.';

create table evidence.upload (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  length bigint not null,
  file_name text not null,
  content_type text not null,
  details jsonb not null,
  created_by_type text not null,
  created_by_id text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  receipt_jws text,
  turn integer not null default 0,
  arrived bigint not null default 0,
  metadata text,
  constraint upload_pk PRIMARY KEY (tenant_id, id),
  constraint upload_arrived_in_length CHECK (((arrived >= 0) AND (arrived <= length))),
  constraint upload_content_type_length CHECK (((char_length(content_type) >= 1) AND (char_length(content_type) <= 255))),
  constraint upload_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint upload_details_is_object CHECK ((jsonb_typeof(details) = 'object'::text)),
  constraint upload_file_name_length CHECK (((char_length(file_name) >= 1) AND (char_length(file_name) <= 255))),
  constraint upload_length_positive CHECK ((length > 0)),
  constraint upload_metadata_length CHECK ((char_length(metadata) <= 4096)),
  constraint upload_turn_not_negative CHECK ((turn >= 0))
);
CREATE INDEX upload_expires_at ON evidence.upload USING btree (tenant_id, expires_at);
CREATE INDEX upload_open ON evidence.upload USING btree (tenant_id, expires_at) INCLUDE (length, id) WHERE (receipt_jws IS NULL);
alter table evidence.upload enable row level security;
alter table evidence.upload force row level security;
create policy postern_evidence_definer_select on evidence.upload as permissive for select to postern_evidence_definer using (true);
create policy postern_evidence_delete on evidence.upload as permissive for delete to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_insert on evidence.upload as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.upload as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.upload as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.upload as restrictive for all to postern_evidence, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table evidence.upload to postern_evidence;
grant select (tenant_id) on table evidence.upload to postern_evidence_definer;
grant select (id) on table evidence.upload to postern_evidence_definer;
grant select (expires_at) on table evidence.upload to postern_evidence_definer;
grant select (receipt_jws) on table evidence.upload to postern_evidence_definer;
comment on table evidence.upload is 'A resumable upload, for as long as its sender may ask about it; receipt_jws once it is recorded as a file.';
comment on column evidence.upload.turn is 'The turn that was given out last.';
comment on column evidence.upload.arrived is 'Bytes that count: the lengths of its pieces.';

create table evidence.upload_piece (
  tenant_id uuid not null,
  upload_id uuid not null,
  turn integer not null,
  is_checked boolean not null,
  length bigint,
  constraint upload_piece_pk PRIMARY KEY (tenant_id, upload_id, turn),
  constraint upload_piece_length_not_negative CHECK ((length >= 0)),
  constraint upload_piece_turn_positive CHECK ((turn > 0)),
  constraint upload_piece_upload_fk FOREIGN KEY (tenant_id, upload_id) REFERENCES evidence.upload(tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX upload_piece_one_open ON evidence.upload_piece USING btree (tenant_id, upload_id) WHERE (length IS NULL);
alter table evidence.upload_piece enable row level security;
alter table evidence.upload_piece force row level security;
create policy postern_evidence_insert on evidence.upload_piece as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.upload_piece as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.upload_piece as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.upload_piece as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table evidence.upload_piece to postern_evidence;
comment on table evidence.upload_piece is 'What was written in one turn. length is null for as long as the turn lasts; is_checked says that it counts whole or not at all.';

create table evidence.usage_reservation (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  bytes bigint not null,
  files integer not null,
  upload_id uuid,
  expires_at timestamp with time zone not null,
  constraint usage_reservation_pk PRIMARY KEY (tenant_id, id),
  constraint usage_reservation_not_negative CHECK (((bytes >= 0) AND (files >= 0)))
);
alter table evidence.usage_reservation enable row level security;
alter table evidence.usage_reservation force row level security;
create policy postern_evidence_delete on evidence.usage_reservation as permissive for delete to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_insert on evidence.usage_reservation as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_select on evidence.usage_reservation as permissive for select to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_evidence_update on evidence.usage_reservation as permissive for update to postern_evidence using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on evidence.usage_reservation as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table evidence.usage_reservation to postern_evidence;
comment on table evidence.usage_reservation is 'Parts of tenant_usage that count for an upload under way, and no longer once they have expired.';

CREATE OR REPLACE FUNCTION evidence.audit_custody_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  insert into tenancy.audit_event (
    tenant_id, at, category, action, reason, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name,
    request_id)
  select new.tenant_id, new.occurred_at, 'evidence',
         'evidence.' || case new.kind
           when 'received' then 'uploaded'
           when 'viewed' then 'downloaded'
           when 'legal_hold_set' then 'held'
           when 'legal_hold_lifted' then 'hold_lifted'
           else new.kind
         end,
         new.detail operator(pg_catalog.->>) 'reason', tenancy.audit_actor_type(new.actor_type), new.actor_id, new.actor_label,
         'evidence_file', f.id::pg_catalog.text, f.reference, new.request_id
    from evidence.file as f
   where f.tenant_id = new.tenant_id and f.id = new.file_id;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION evidence.blob_is_recorded(tenant uuid, digest text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select exists (
    select from evidence.file as f
     where f.tenant_id = tenant
       and f.sha256 = digest
       and not exists (
         select from evidence.file_decision as d
          where d.tenant_id = f.tenant_id
            and d.file_id = f.id
            and d.kind = 'purged'))
$function$;
alter routine evidence.blob_is_recorded(uuid,text) owner to postern_evidence_definer;
grant execute on routine evidence.blob_is_recorded(uuid,text) to postern_evidence;

CREATE OR REPLACE FUNCTION evidence.guard_attachments()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  touched record;
begin
  for touched in select distinct a.tenant_id, a.file_id from added a order by a.file_id loop
    -- One at a time for a file: what others have attached meanwhile is seen by the count.
    perform pg_advisory_xact_lock(
      hashtextextended('evidence.attachment:' || touched.tenant_id || ':' || touched.file_id, 0));
    -- attachment_once
    if (
      select count(*) from evidence.attachment a
      where a.tenant_id = touched.tenant_id and a.file_id = touched.file_id
    ) > 1000 then
      raise exception using
        errcode = 'check_violation', schema = 'evidence', table = 'attachment', constraint = 'attachment_at_most',
        message = 'a file is attached to at most 1000 test procedures';
    end if;
  end loop;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION evidence.guard_file_decision()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  found_scan text;
  kept_until date;
begin
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  select f.scan, f.retention_until
  into found_scan, kept_until
  from evidence.file f
  where f.tenant_id = new.tenant_id and f.id = new.file_id;
  if new.kind = 'released' and found_scan is distinct from 'infected' then
    raise exception 'only what is in quarantine can be released' using errcode = '23514', constraint = 'file_decision_of_quarantined';
  end if;
  if new.kind = 'purged' and ((now() at time zone 'UTC')::date > kept_until) is not true then
    raise exception 'the file is still to be kept' using errcode = '23514', constraint = 'file_decision_after_retention';
  end if;
  if new.kind = 'purged' and (
    select h.kind
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
    order by h.number desc
    limit 1
  ) = 'set' then
    raise exception 'the file is under a legal hold' using errcode = '23514', constraint = 'file_decision_without_hold';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION evidence.guard_legal_hold()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  -- One decision about a file at a time: what is purged or held meanwhile is seen by the statements below.
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  if new.number <> 1 + (
    select coalesce(max(h.number), 0)
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
  ) then
    raise exception 'holds are set and lifted in turn' using errcode = '23514', constraint = 'legal_hold_in_turn';
  end if;
  if new.kind = 'set' and exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) then
    raise exception 'what is purged cannot be held' using errcode = '23514', constraint = 'legal_hold_of_kept';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION evidence.guard_verdict()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  -- file_decision_guard, whose name comes first, has taken the lock of the file's decisions.
  if exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) or evidence.is_superseded(new.tenant_id, new.file_id)
  or exists (
    select from evidence.file f
    where f.tenant_id = new.tenant_id and f.id = new.file_id and f.scan = 'infected'
      and not exists (
        select from evidence.file_decision d
        where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind = 'released'
      )
  ) then
    raise exception 'only what is accepted or released can be judged' using errcode = '23514', constraint = 'file_decision_of_accepted';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION evidence.is_superseded(tenant uuid, file_id uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  with recursive line (id, counts) as (
    select is_superseded.file_id, false
    union all
    select newer.id, newer.scan <> 'infected' or exists (
      select from evidence.file_decision d
      where d.tenant_id = newer.tenant_id and d.file_id = newer.id and d.kind = 'released'
    )
    from line
    join evidence.file newer on newer.tenant_id = tenant and newer.version_of = line.id
    where not line.counts
  )
  select exists (select from line where line.counts)
$function$;
grant execute on routine evidence.is_superseded(uuid,uuid) to postern_evidence;

CREATE OR REPLACE FUNCTION evidence.upload_is_open(tenant uuid, upload_id uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select exists (
    select from evidence.upload as u
     where u.tenant_id = tenant
       and u.id = upload_is_open.upload_id
       and u.receipt_jws is null
       and u.expires_at > now())
$function$;
alter routine evidence.upload_is_open(uuid,uuid) owner to postern_evidence_definer;
grant execute on routine evidence.upload_is_open(uuid,uuid) to postern_evidence;
