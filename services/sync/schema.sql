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
  constraint connector_pk PRIMARY KEY (tenant_id, id),
  constraint connector_key_unique UNIQUE (tenant_id, key),
  constraint connector_dataset_known CHECK ((dataset = ANY (ARRAY['org_structure'::text, 'auditable_entities'::text, 'people'::text, 'test_procedures'::text]))),
  constraint connector_key_form CHECK ((key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text)),
  constraint connector_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint connector_state_known CHECK ((state = ANY (ARRAY['active'::text, 'paused'::text, 'error'::text]))),
  constraint connector_type_known CHECK ((type = ANY (ARRAY['csv_upload'::text, 'inline_json'::text, 'http_json'::text, 'scim_pull'::text, 'scim_inbound'::text, 'ldap'::text, 'sql'::text, 'sftp_csv'::text])))
);
alter table sync.connector enable row level security;
alter table sync.connector force row level security;
create policy postern_sync_insert on sync.connector as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.connector as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.connector as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.connector as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.connector to postern_sync;
comment on table sync.connector is 'Where the audit universe comes from. The connector `inline` stands for pushes and is made by the first one.';
comment on column sync.connector.last_run_at is 'When the last run began. Not a change of the connector: version and updated_at stay.';

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
  fetched_count integer not null,
  created_count integer not null default 0,
  updated_count integer not null default 0,
  unchanged_count integer not null default 0,
  failure text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  request_id text not null,
  started_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  deactivated_count integer not null default 0,
  constraint run_pk PRIMARY KEY (tenant_id, id),
  constraint run_counts_not_negative CHECK (((fetched_count >= 0) AND (created_count >= 0) AND (updated_count >= 0) AND (unchanged_count >= 0))),
  constraint run_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint run_deactivated_not_negative CHECK ((deactivated_count >= 0)),
  constraint run_failure_known CHECK ((failure = ANY (ARRAY['refused'::text, 'conflict'::text, 'unreachable'::text, 'outcome_unknown'::text, 'internal'::text, 'interrupted'::text]))),
  constraint run_failure_when_failed CHECK (((failure IS NOT NULL) = (status = 'failed'::text))),
  constraint run_finished_when_not_running CHECK (((finished_at IS NULL) = (status = 'running'::text))),
  constraint run_source_known CHECK ((source = 'inline'::text)),
  constraint run_status_known CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text]))),
  constraint run_connector_fk FOREIGN KEY (tenant_id, connector_id) REFERENCES sync.connector(tenant_id, id)
);
CREATE INDEX run_connector ON sync.run USING btree (tenant_id, connector_id, id);
CREATE INDEX run_running ON sync.run USING btree (tenant_id, started_at) WHERE (status = 'running'::text);
alter table sync.run enable row level security;
alter table sync.run force row level security;
create policy postern_sync_insert on sync.run as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on sync.run as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on sync.run as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on sync.run as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table sync.run to postern_sync;
comment on table sync.run is 'One attempt to bring the universe up to date, from its start to its outcome.';
comment on column sync.run.failure is 'Why a run failed. outcome_unknown: the universe may hold the rows; pushing them again is harmless.';
