-- Connectors and the runs that they, or a push, have made.

create schema sync;

create table sync.connector (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key text not null,
  name text not null,
  type text not null,
  dataset text not null,
  state text not null default 'active',
  last_run_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  version integer not null default 1,
  constraint connector_pk primary key (tenant_id, id),
  constraint connector_key_unique unique (tenant_id, key),
  constraint connector_key_form check (key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
  constraint connector_name_length check (char_length(name) between 1 and 255),
  constraint connector_type_known check (
    type in ('csv_upload', 'inline_json', 'http_json', 'scim_pull', 'scim_inbound', 'ldap', 'sql', 'sftp_csv')
  ),
  constraint connector_dataset_known check (
    dataset in ('org_structure', 'auditable_entities', 'people', 'test_procedures')
  ),
  constraint connector_state_known check (state in ('active', 'paused', 'error'))
);
comment on table sync.connector is 'Where the audit universe comes from. The connector `inline` stands for pushes and is made by the first one.';
comment on column sync.connector.last_run_at is 'When the last run began. Not a change of the connector: version and updated_at stay.';

create table sync.run (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  connector_id uuid,
  source text not null,
  status text not null default 'running',
  fetched_count integer not null,
  created_count integer not null default 0,
  updated_count integer not null default 0,
  unchanged_count integer not null default 0,
  failure text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  request_id text not null,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint run_pk primary key (tenant_id, id),
  constraint run_connector_fk foreign key (tenant_id, connector_id) references sync.connector (tenant_id, id),
  constraint run_source_known check (source in ('inline')),
  constraint run_status_known check (status in ('running', 'succeeded', 'failed')),
  constraint run_finished_when_not_running check ((finished_at is null) = (status = 'running')),
  constraint run_failure_when_failed check ((failure is not null) = (status = 'failed')),
  constraint run_failure_known check (
    failure in ('refused', 'conflict', 'unreachable', 'outcome_unknown', 'internal', 'interrupted')
  ),
  constraint run_counts_not_negative check (
    fetched_count >= 0 and created_count >= 0 and updated_count >= 0 and unchanged_count >= 0
  ),
  constraint run_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table sync.run is 'One attempt to bring the universe up to date, from its start to its outcome.';
comment on column sync.run.failure is
  'Why a run failed. outcome_unknown: the universe may hold the rows; pushing them again is harmless.';

create index run_connector on sync.run (tenant_id, connector_id, id);
-- Serves the search for runs that a crash has left behind; holds only runs in progress.
create index run_running on sync.run (tenant_id, started_at) where status = 'running';

call tenancy.protect_table('sync.connector', 'postern_sync', array['select', 'insert', 'update']);
call tenancy.protect_table('sync.run', 'postern_sync', array['select', 'insert', 'update']);
