create schema sync authorization postern_owner;
grant usage on schema sync to postern_sync;

create table sync.connector (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key text not null,
  name text not null,
  type text not null,
  dataset text not null,
  state text not null default 'active'::text,
  last_run_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  version integer not null default 1,
  hierarchy jsonb,
  config jsonb not null default '{}'::jsonb,
  mapping jsonb not null default '[]'::jsonb,
  schedule_cron text,
  schedule_time_zone text,
  next_run_at timestamp with time zone,
  missing_policy text not null default 'flag'::text,
  safety jsonb not null default '{"min_rows": 1, "max_change_pct": 40, "max_deactivate": 50, "max_deactivate_pct": 10}'::jsonb,
  consecutive_failures integer not null default 0,
  retired_at timestamp with time zone,
  telling integer not null default 0,
  retired_key text,
  authoritative boolean not null default false,
  constraint connector_pk PRIMARY KEY (tenant_id, id),
  constraint connector_key_unique UNIQUE (tenant_id, key),
  constraint connector_authoritative_brings_people CHECK (((NOT authoritative) OR (dataset = 'people'::text))),
  constraint connector_config_is_object CHECK ((jsonb_typeof(config) = 'object'::text)),
  constraint connector_dataset_known CHECK ((dataset = ANY (ARRAY['org_structure'::text, 'auditable_entities'::text, 'people'::text, 'test_procedures'::text]))),
  constraint connector_failures_not_negative CHECK ((consecutive_failures >= 0)),
  constraint connector_hierarchy_is_object CHECK ((jsonb_typeof(hierarchy) = 'object'::text)),
  constraint connector_key_form CHECK ((key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text)),
  constraint connector_missing_policy_known CHECK ((missing_policy = ANY (ARRAY['ignore'::text, 'flag'::text, 'deactivate'::text]))),
  constraint connector_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint connector_schedule_whole CHECK (((schedule_cron IS NULL) = (schedule_time_zone IS NULL))),
  constraint connector_state_known CHECK ((state = ANY (ARRAY['active'::text, 'paused'::text, 'error'::text]))),
  constraint connector_type_known CHECK ((type = ANY (ARRAY['csv'::text, 'inline_json'::text, 'http_json'::text, 'scim'::text, 'scim_inbound'::text, 'ldap'::text, 'sql'::text])))
);
CREATE TRIGGER connector_kept BEFORE DELETE OR UPDATE OF tenant_id, id ON sync.connector FOR EACH STATEMENT EXECUTE FUNCTION sync.keep_owners();
CREATE TRIGGER connector_never_emptied BEFORE TRUNCATE ON sync.connector FOR EACH STATEMENT EXECUTE FUNCTION sync.keep_owners();
alter table sync.connector enable row level security;
alter table sync.connector force row level security;
create policy postern_sync_insert on sync.connector as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.connector as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.connector as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.connector as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.connector to postern_sync;
comment on table sync.connector is 'Where the audit universe comes from. The connector `inline` stands for pushes and is made by the first one.';
comment on column sync.connector.last_run_at is 'When the last run began. Not a change of the connector: version and updated_at stay.';
comment on column sync.connector.next_run_at is 'When the schedule is due next. Not a change of the connector.';
comment on column sync.connector.retired_at is 'Deleted for its clients: kept because runs point at it. Its key is then a random one, so that its own can be given again.';
comment on column sync.connector.telling is 'How often a worker has begun to tell the universe. By it the universe knows who comes too late. Not a change of the connector.';
comment on column sync.connector.retired_key is 'The key that it had until it was retired. Another connector may have it now.';
comment on column sync.connector.authoritative is 'Whether people whom it brings lose access when they become inactive.';

create table sync.connector_secret (
  tenant_id uuid not null,
  connector_id uuid not null,
  name text not null,
  sealed text not null,
  updated_at timestamp with time zone not null default now(),
  constraint connector_secret_pk PRIMARY KEY (tenant_id, connector_id, name),
  constraint connector_secret_form CHECK ((sealed ~ '^v1\.[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$'::text)),
  constraint connector_secret_connector_fk FOREIGN KEY (tenant_id, connector_id) REFERENCES sync.connector(tenant_id, id)
);
alter table sync.connector_secret enable row level security;
alter table sync.connector_secret force row level security;
create policy postern_sync_delete on sync.connector_secret as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.connector_secret as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.connector_secret as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.connector_secret as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.connector_secret as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table sync.connector_secret to postern_sync;
comment on column sync.connector_secret.sealed is 'Encrypted with a key of its own (AES-256-GCM), which is encrypted with the key that is named. src/secret/seal.ts.';

create table sync.idempotency_record (
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
CREATE INDEX idempotency_record_by_claimed_at ON sync.idempotency_record USING btree (tenant_id, claimed_at);
alter table sync.idempotency_record enable row level security;
alter table sync.idempotency_record force row level security;
create policy postern_sync_delete on sync.idempotency_record as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.idempotency_record as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.idempotency_record as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.idempotency_record as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.idempotency_record as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table sync.idempotency_record to postern_sync;
comment on table sync.idempotency_record is 'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.';
comment on column sync.idempotency_record.slot is 'SHA-256 over principal, route and key: what a client has written is not kept.';
comment on column sync.idempotency_record.fingerprint is 'SHA-256 over what the request said: another one under the same key is told from a repetition.';
comment on column sync.idempotency_record.claim_id is 'Who may write the answer. It changes when the request is taken over.';

create table sync.run (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  connector_id uuid,
  source text not null,
  status text not null default 'running'::text,
  fetched_count integer not null default 0,
  created_count integer not null default 0,
  updated_count integer not null default 0,
  unchanged_count integer not null default 0,
  failure text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  request_id text not null,
  started_at timestamp with time zone default now(),
  finished_at timestamp with time zone,
  deactivated_count integer not null default 0,
  mode text not null default 'apply'::text,
  trigger text not null default 'push'::text,
  created_at timestamp with time zone not null default now(),
  upload_id uuid,
  input_sha256 text,
  valid_count integer not null default 0,
  invalid_count integer not null default 0,
  moved_count integer not null default 0,
  reactivated_count integer not null default 0,
  missing_count integer not null default 0,
  applied_count integer not null default 0,
  breaches jsonb not null default '[]'::jsonb,
  failure_message text,
  diff_hash text,
  rollback_of uuid,
  override_safety boolean not null default false,
  approved boolean not null default false,
  cancel_asked boolean not null default false,
  reason text,
  attempt integer not null default 0,
  holder uuid,
  revision integer not null default 1,
  details_cleared_at timestamp with time zone,
  constraint run_pk PRIMARY KEY (tenant_id, id),
  constraint run_counts_not_negative CHECK (((fetched_count >= 0) AND (created_count >= 0) AND (updated_count >= 0) AND (unchanged_count >= 0))),
  constraint run_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint run_deactivated_not_negative CHECK ((deactivated_count >= 0)),
  constraint run_failure_form CHECK ((failure ~ '^[a-z][a-z0-9_]{0,63}$'::text)),
  constraint run_failure_when_failed CHECK (((failure IS NOT NULL) = (status = 'failed'::text))),
  constraint run_finished_at_its_end CHECK (((finished_at IS NOT NULL) = (status = ANY (ARRAY['succeeded'::text, 'partial'::text, 'failed'::text, 'cancelled'::text])))),
  constraint run_mode_known CHECK ((mode = ANY (ARRAY['dry_run'::text, 'apply'::text, 'rollback'::text]))),
  constraint run_source_known CHECK ((source = ANY (ARRAY['inline'::text, 'connector'::text]))),
  constraint run_status_known CHECK ((status = ANY (ARRAY['running'::text, 'queued'::text, 'fetching'::text, 'validating'::text, 'diffing'::text, 'needs_approval'::text, 'applying'::text, 'succeeded'::text, 'partial'::text, 'failed'::text, 'cancelled'::text]))),
  constraint run_trigger_known CHECK ((trigger = ANY (ARRAY['api'::text, 'schedule'::text, 'upload'::text, 'push'::text]))),
  constraint run_connector_fk FOREIGN KEY (tenant_id, connector_id) REFERENCES sync.connector(tenant_id, id),
  constraint run_rollback_of_fk FOREIGN KEY (tenant_id, rollback_of) REFERENCES sync.run(tenant_id, id)
);
CREATE INDEX run_by_status ON sync.run USING btree (tenant_id, status, id);
CREATE INDEX run_connector ON sync.run USING btree (tenant_id, connector_id, id);
CREATE UNIQUE INDEX run_one_a_connector ON sync.run USING btree (tenant_id, connector_id) WHERE ((source = 'connector'::text) AND (status = ANY (ARRAY['queued'::text, 'fetching'::text, 'validating'::text, 'diffing'::text, 'applying'::text])));
CREATE INDEX run_rollback_of ON sync.run USING btree (tenant_id, rollback_of) WHERE (rollback_of IS NOT NULL);
CREATE INDEX run_running ON sync.run USING btree (tenant_id, started_at) WHERE (status = 'running'::text);
CREATE INDEX run_with_details ON sync.run USING btree (tenant_id, finished_at) WHERE ((source = 'connector'::text) AND (finished_at IS NOT NULL) AND (details_cleared_at IS NULL));
CREATE TRIGGER audits_begun AFTER INSERT ON sync.run FOR EACH ROW WHEN ((new.source = 'connector'::text)) EXECUTE FUNCTION sync.audit_run();
CREATE TRIGGER audits_finished AFTER UPDATE ON sync.run FOR EACH ROW WHEN (((new.source = 'connector'::text) AND (old.finished_at IS NULL) AND (new.finished_at IS NOT NULL))) EXECUTE FUNCTION sync.audit_run();
CREATE TRIGGER notes_finished AFTER UPDATE ON sync.run FOR EACH ROW WHEN (((old.finished_at IS NULL) AND (new.finished_at IS NOT NULL))) EXECUTE FUNCTION tenancy.note_event('id', 'sync_run.finished');
CREATE TRIGGER notes_needs_approval AFTER UPDATE ON sync.run FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND (new.status = 'needs_approval'::text))) EXECUTE FUNCTION tenancy.note_event('id', 'sync_run.needs_approval');
CREATE TRIGGER notes_new_finished AFTER INSERT ON sync.run FOR EACH ROW WHEN ((new.finished_at IS NOT NULL)) EXECUTE FUNCTION tenancy.note_event('id', 'sync_run.finished');
CREATE TRIGGER run_kept BEFORE DELETE OR UPDATE OF tenant_id, id ON sync.run FOR EACH STATEMENT EXECUTE FUNCTION sync.keep_owners();
CREATE TRIGGER run_never_emptied BEFORE TRUNCATE ON sync.run FOR EACH STATEMENT EXECUTE FUNCTION sync.keep_owners();
alter table sync.run enable row level security;
alter table sync.run force row level security;
create policy postern_sync_insert on sync.run as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.run as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.run as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.run as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.run to postern_sync;
comment on table sync.run is 'One attempt to bring the universe up to date, from its start to its outcome.';
comment on column sync.run.failure is 'Why a run failed. outcome_unknown: the universe may hold the rows; pushing them again is harmless.';
comment on column sync.run.holder is 'The worker that carries it out. Whatever a worker writes, it writes only while it stands here.';
comment on column sync.run.revision is 'Counts what clients can see change.';
comment on column sync.run.details_cleared_at is 'When its errors were removed, and its changes where none was ever to be applied.';

create table sync.run_error (
  tenant_id uuid not null,
  run_id uuid not null,
  seq integer not null,
  "row" integer,
  source_key text,
  field text,
  code text not null,
  message text not null,
  value_excerpt text,
  severity text not null default 'error'::text,
  constraint run_error_pk PRIMARY KEY (tenant_id, run_id, seq),
  constraint run_error_severity_known CHECK ((severity = ANY (ARRAY['error'::text, 'warning'::text]))),
  constraint run_error_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES sync.run(tenant_id, id)
);
alter table sync.run_error enable row level security;
alter table sync.run_error force row level security;
create policy postern_sync_delete on sync.run_error as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.run_error as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.run_error as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.run_error as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table sync.run_error to postern_sync;
comment on column sync.run_error.severity is 'error: the row, or what it would change, was not taken in. warning: it was.';

create table sync.scim_group (
  tenant_id uuid not null,
  id uuid not null,
  display_name text not null,
  external_id text,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  constraint scim_group_pk PRIMARY KEY (tenant_id, id),
  constraint scim_group_display_name_length CHECK (((char_length(display_name) >= 1) AND (char_length(display_name) <= 255))),
  constraint scim_group_version_positive CHECK ((version > 0))
);
CREATE UNIQUE INDEX scim_group_display_name ON sync.scim_group USING btree (tenant_id, lower(display_name));
alter table sync.scim_group enable row level security;
alter table sync.scim_group force row level security;
create policy postern_sync_delete on sync.scim_group as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.scim_group as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.scim_group as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.scim_group as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.scim_group as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table sync.scim_group to postern_sync;

create table sync.scim_member (
  tenant_id uuid not null,
  group_id uuid not null,
  member_id uuid not null,
  constraint scim_member_pk PRIMARY KEY (tenant_id, group_id, member_id),
  constraint scim_member_group_fk FOREIGN KEY (tenant_id, group_id) REFERENCES sync.scim_group(tenant_id, id)
);
CREATE INDEX scim_member_by_member ON sync.scim_member USING btree (tenant_id, member_id);
alter table sync.scim_member enable row level security;
alter table sync.scim_member force row level security;
create policy postern_sync_delete on sync.scim_member as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.scim_member as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.scim_member as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.scim_member as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table sync.scim_member to postern_sync;
comment on column sync.scim_member.member_id is 'A user or a group.';

create table sync.scim_pending (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  person_key text not null,
  pushed jsonb,
  fallback jsonb not null,
  unit_keys text[] not null,
  created_at timestamp with time zone not null default now(),
  constraint scim_pending_pk PRIMARY KEY (tenant_id, id),
  constraint scim_pending_fallback_is_object CHECK ((jsonb_typeof(fallback) = 'object'::text)),
  constraint scim_pending_pushed_is_object CHECK ((jsonb_typeof(pushed) = 'object'::text))
);
alter table sync.scim_pending enable row level security;
alter table sync.scim_pending force row level security;
create policy postern_sync_delete on sync.scim_pending as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.scim_pending as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.scim_pending as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.scim_pending as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table sync.scim_pending to postern_sync;
comment on table sync.scim_pending is 'Pushes of SCIM users whose outcome is not stored. If one is older than any push may take, the universe gets what is stored.';
comment on column sync.scim_pending.pushed is 'The person as pushed. Null: only units were pushed.';
comment on column sync.scim_pending.fallback is 'The person if no user is stored.';

create table sync.scim_user (
  tenant_id uuid not null,
  id uuid not null,
  user_name text not null,
  external_id text,
  person_key text not null,
  active boolean not null,
  unit_key text,
  division_key text,
  content jsonb not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  deleted_at timestamp(3) with time zone,
  version integer not null default 1,
  manager text,
  constraint scim_user_pk PRIMARY KEY (tenant_id, id),
  constraint scim_user_content_is_object CHECK ((jsonb_typeof(content) = 'object'::text)),
  constraint scim_user_person_key_length CHECK (((char_length(person_key) >= 1) AND (char_length(person_key) <= 255))),
  constraint scim_user_user_name_length CHECK (((char_length(user_name) >= 1) AND (char_length(user_name) <= 255))),
  constraint scim_user_version_positive CHECK ((version > 0))
);
CREATE INDEX scim_user_by_division ON sync.scim_user USING btree (tenant_id, division_key) WHERE ((deleted_at IS NULL) AND active);
CREATE INDEX scim_user_by_manager ON sync.scim_user USING btree (tenant_id, manager) WHERE ((deleted_at IS NULL) AND active);
CREATE INDEX scim_user_by_unit ON sync.scim_user USING btree (tenant_id, unit_key) WHERE ((deleted_at IS NULL) AND active);
CREATE UNIQUE INDEX scim_user_external_id ON sync.scim_user USING btree (tenant_id, external_id) WHERE (deleted_at IS NULL);
CREATE UNIQUE INDEX scim_user_person_key ON sync.scim_user USING btree (tenant_id, person_key) WHERE (deleted_at IS NULL);
CREATE UNIQUE INDEX scim_user_user_name ON sync.scim_user USING btree (tenant_id, lower(user_name)) WHERE (deleted_at IS NULL);
CREATE TRIGGER scim_user_is_published AFTER INSERT OR UPDATE OF user_name, external_id, active, content, deleted_at ON sync.scim_user FOR EACH ROW EXECUTE FUNCTION sync.publish_user();
alter table sync.scim_user enable row level security;
alter table sync.scim_user force row level security;
create policy postern_sync_insert on sync.scim_user as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.scim_user as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.scim_user as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.scim_user as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.scim_user to postern_sync;
comment on column sync.scim_user.person_key is 'The external_id of the person in the universe: what the user was first known by. It never changes.';
comment on column sync.scim_user.unit_key is 'The lowest node of the hierarchy `scim` that the user belongs to.';
comment on column sync.scim_user.deleted_at is 'Deleted for the provider. Kept, because the person is, and may hold an address that somebody else is given.';
comment on column sync.scim_user.manager is 'The id of another user, or the externalId, as the provider has sent it. Nobody may have it (yet).';

create table sync.upload_chunk (
  tenant_id uuid not null,
  upload_id uuid not null,
  index integer not null,
  content bytea not null,
  stored_at timestamp with time zone not null default now(),
  constraint upload_chunk_pk PRIMARY KEY (tenant_id, upload_id, index)
);
CREATE INDEX upload_chunk_by_stored_at ON sync.upload_chunk USING btree (tenant_id, stored_at);
alter table sync.upload_chunk enable row level security;
alter table sync.upload_chunk force row level security;
create policy postern_sync_delete on sync.upload_chunk as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.upload_chunk as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.upload_chunk as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.upload_chunk as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table sync.upload_chunk to postern_sync;

create table sync.webhook_delivery (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  resource_id uuid not null,
  state text not null default 'pending'::text,
  attempts integer not null default 0,
  first_attempt_at timestamp(3) with time zone,
  last_attempt_at timestamp(3) with time zone,
  next_attempt_at timestamp(3) with time zone not null default now(),
  status integer,
  duration_ms integer,
  error text,
  answer text,
  constraint webhook_delivery_pk PRIMARY KEY (tenant_id, endpoint_id, event_id),
  constraint webhook_delivery_attempts_not_negative CHECK ((attempts >= 0)),
  constraint webhook_delivery_state_known CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text, 'skipped'::text]))),
  constraint webhook_delivery_endpoint_fk FOREIGN KEY (tenant_id, endpoint_id) REFERENCES sync.webhook_endpoint(tenant_id, id),
  constraint webhook_delivery_event_fk FOREIGN KEY (tenant_id, event_id) REFERENCES sync.webhook_event(tenant_id, id)
);
CREATE INDEX webhook_delivery_due ON sync.webhook_delivery USING btree (tenant_id, endpoint_id, next_attempt_at) WHERE (state = 'pending'::text);
CREATE INDEX webhook_delivery_of_event ON sync.webhook_delivery USING btree (tenant_id, event_id);
CREATE INDEX webhook_delivery_of_resource ON sync.webhook_delivery USING btree (tenant_id, endpoint_id, resource_id, event_id) WHERE (state = 'pending'::text);
CREATE INDEX webhook_delivery_pending ON sync.webhook_delivery USING btree (tenant_id, endpoint_id, event_id) WHERE (state = 'pending'::text);
alter table sync.webhook_delivery enable row level security;
alter table sync.webhook_delivery force row level security;
create policy postern_sync_delete on sync.webhook_delivery as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.webhook_delivery as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_delivery as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.webhook_delivery as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_delivery as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table sync.webhook_delivery to postern_sync;
comment on column sync.webhook_delivery.event_id is 'Also the webhook-id, and the order of deliveries: later events have greater ids.';

create table sync.webhook_endpoint (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  url text not null,
  description text not null,
  events text[] not null,
  ca text,
  state text not null default 'enabled'::text,
  failing_since timestamp(3) with time zone,
  failures integer not null default 0,
  retry_at timestamp(3) with time zone,
  paused_at timestamp(3) with time zone,
  last_delivered_at timestamp(3) with time zone,
  last_error text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  deleted_at timestamp(3) with time zone,
  version integer not null default 1,
  constraint webhook_endpoint_pk PRIMARY KEY (tenant_id, id),
  constraint webhook_endpoint_events_some CHECK (((cardinality(events) >= 1) AND (cardinality(events) <= 50))),
  constraint webhook_endpoint_paused_whole CHECK (((state = 'paused'::text) = (paused_at IS NOT NULL))),
  constraint webhook_endpoint_state_known CHECK ((state = ANY (ARRAY['enabled'::text, 'disabled'::text, 'paused'::text])))
);
alter table sync.webhook_endpoint enable row level security;
alter table sync.webhook_endpoint force row level security;
create policy postern_sync_insert on sync.webhook_endpoint as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_endpoint as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.webhook_endpoint as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_endpoint as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.webhook_endpoint to postern_sync;
comment on column sync.webhook_endpoint.id is 'Also the work that is granted to workers, hence random.';
comment on column sync.webhook_endpoint.version is 'Counts edits; outcomes of deliveries leave it.';

create table sync.webhook_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  type text not null,
  resource_id uuid not null,
  version integer,
  occurred_at timestamp(3) with time zone not null,
  created_at timestamp(3) with time zone not null default clock_timestamp(),
  constraint webhook_event_pk PRIMARY KEY (tenant_id, id)
);
CREATE INDEX webhook_event_by_age ON sync.webhook_event USING btree (tenant_id, created_at);
alter table sync.webhook_event enable row level security;
alter table sync.webhook_event force row level security;
create policy postern_sync_delete on sync.webhook_event as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.webhook_event as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_event as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_event as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table sync.webhook_event to postern_sync;

create table sync.webhook_feed (
  tenant_id uuid not null,
  work_id uuid not null default gen_random_uuid(),
  "position" bigint not null,
  ordinal integer,
  pruned_at timestamp with time zone,
  constraint webhook_feed_pk PRIMARY KEY (tenant_id)
);
alter table sync.webhook_feed enable row level security;
alter table sync.webhook_feed force row level security;
create policy postern_sync_insert on sync.webhook_feed as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_feed as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.webhook_feed as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_feed as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.webhook_feed to postern_sync;
comment on column sync.webhook_feed.work_id is 'The work that is granted to workers.';

create table sync.webhook_secret (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  id uuid not null default uuidv7(),
  sealed text not null,
  created_at timestamp(3) with time zone not null default now(),
  expires_at timestamp(3) with time zone,
  constraint webhook_secret_pk PRIMARY KEY (tenant_id, endpoint_id, id),
  constraint webhook_secret_form CHECK ((sealed ~ '^v1\.[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$'::text)),
  constraint webhook_secret_endpoint_fk FOREIGN KEY (tenant_id, endpoint_id) REFERENCES sync.webhook_endpoint(tenant_id, id)
);
alter table sync.webhook_secret enable row level security;
alter table sync.webhook_secret force row level security;
create policy postern_sync_delete on sync.webhook_secret as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on sync.webhook_secret as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_secret as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.webhook_secret as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_secret as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table sync.webhook_secret to postern_sync;
comment on column sync.webhook_secret.expires_at is 'Set by a rotation: deliveries are also signed with it until then.';

create table sync.webhook_trail (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  endpoint_id uuid not null,
  type text not null,
  at timestamp(3) with time zone not null default clock_timestamp(),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  detail jsonb not null default '{}'::jsonb,
  constraint webhook_trail_pk PRIMARY KEY (tenant_id, id),
  constraint webhook_trail_detail_object CHECK ((jsonb_typeof(detail) = 'object'::text)),
  constraint webhook_trail_type_known CHECK ((type = ANY (ARRAY['created'::text, 'changed'::text, 'secret_rotated'::text, 'sent'::text, 'paused'::text, 'deleted'::text])))
);
CREATE INDEX webhook_trail_of_endpoint ON sync.webhook_trail USING btree (tenant_id, endpoint_id, id DESC);
CREATE TRIGGER audits_webhook AFTER INSERT ON sync.webhook_trail FOR EACH ROW EXECUTE FUNCTION sync.audit_webhook();
CREATE TRIGGER webhook_trail_never_emptied BEFORE TRUNCATE ON sync.webhook_trail FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER webhook_trail_only_grows BEFORE DELETE OR UPDATE ON sync.webhook_trail FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table sync.webhook_trail enable row level security;
alter table sync.webhook_trail force row level security;
create policy postern_sync_insert on sync.webhook_trail as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.webhook_trail as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.webhook_trail as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table sync.webhook_trail to postern_sync;

CREATE OR REPLACE FUNCTION sync.audit_run()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  is_begin constant pg_catalog.bool := tg_op = 'INSERT';
begin
  insert into tenancy.audit_event (
    tenant_id, category, action, outcome, reason, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name,
    request_id)
  select new.tenant_id, 'connector',
         case
           when not is_begin then 'connector.run_finished'
           when new.mode = 'rollback' then 'connector.run_undone'
           else 'connector.run_started'
         end,
         case when new.status = 'failed' then 'failure' else 'success' end,
         case when is_begin then new.reason when new.status <> 'succeeded' then coalesce(new.failure, new.status) end,
         case when is_begin then tenancy.audit_actor_type(new.created_by_type) else 'system' end,
         case when is_begin then new.created_by_id end,
         case when is_begin then new.created_by_label else 'Postern' end,
         'sync_run', new.id::pg_catalog.text, c.name, case when is_begin then new.request_id end
    from sync.connector as c
   where c.tenant_id = new.tenant_id and c.id = new.connector_id;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION sync.audit_webhook()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  insert into tenancy.audit_event (
    tenant_id, at, category, action, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name)
  select new.tenant_id, new.at, 'webhook', 'webhook.' || new.type, tenancy.audit_actor_type(new.actor_type), new.actor_id,
         new.actor_label, 'webhook', e.id::pg_catalog.text,
         coalesce(nullif(e.description, ''), pg_catalog."substring"(e.url, '://([^/?#]+)'), e.url)
    from sync.webhook_endpoint as e
   where e.tenant_id = new.tenant_id and e.id = new.endpoint_id;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION sync.keep_owners()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_kept',
    message = 'runs and connectors are never deleted, and keep their ids';
end
$function$;

CREATE OR REPLACE FUNCTION sync.publish_user()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  is_in constant boolean := new.active and new.deleted_at is null;
  hashes bytea[];
begin
  select pg_catalog.array_agg(distinct tenancy.hash_name(new.tenant_id, n.attribute, n.name))
    into hashes
    from (values ('userName', new.user_name), ('externalId', new.external_id)
          union all
          select 'emails.value', e.item ->> 'value'
            from pg_catalog.jsonb_array_elements(
                   case pg_catalog.jsonb_typeof(new.content -> 'emails') when 'array' then new.content -> 'emails' else '[]' end)
                 as e (item)) as n (attribute, name)
   where n.name is not null;
  insert into tenancy.directory_name as d (tenant_id, hash, person_id, is_active, is_current)
  select new.tenant_id, h.hash, new.id, is_in, true
    from pg_catalog.unnest(hashes) as h (hash)
      on conflict (tenant_id, hash, person_id) do update
     set is_active = excluded.is_active, is_current = true
   where (d.is_active, d.is_current) <> (excluded.is_active, true);
  update tenancy.directory_name as d
     set is_active = is_in, is_current = false
   where d.tenant_id = new.tenant_id
     and d.person_id = new.id
     and d.hash <> all (hashes)
     and (d.is_active, d.is_current) <> (is_in, false);
  return null;
end
$function$;
grant execute on routine sync.publish_user() to postern_sync;
