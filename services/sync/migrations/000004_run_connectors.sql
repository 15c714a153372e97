-- Connectors that fetch, and runs that are planned, approved, applied and undone.

alter table sync.connector
  add column hierarchy jsonb,
  add column config jsonb not null default '{}',
  add column mapping jsonb not null default '[]',
  add column schedule_cron text,
  add column schedule_time_zone text,
  add column next_run_at timestamptz,
  add column missing_policy text not null default 'flag',
  add column safety jsonb not null default
    '{"max_deactivate_pct": 10, "max_deactivate": 50, "min_rows": 1, "max_change_pct": 40}',
  add column consecutive_failures integer not null default 0,
  add column retired_at timestamptz,
  drop constraint connector_type_known,
  add constraint connector_type_known check (
    type in (
      'csv', 'inline_json', 'http_json', 'scim', 'scim_inbound', 'ldap', 'sql', 'csv_upload', 'scim_pull', 'sftp_csv'
    )
  ),
  add constraint connector_missing_policy_known check (missing_policy in ('ignore', 'flag', 'deactivate')),
  add constraint connector_schedule_whole check ((schedule_cron is null) = (schedule_time_zone is null)),
  add constraint connector_failures_not_negative check (consecutive_failures >= 0),
  add constraint connector_hierarchy_is_object check (jsonb_typeof(hierarchy) = 'object'),
  add constraint connector_config_is_object check (jsonb_typeof(config) = 'object');
comment on column sync.connector.next_run_at is 'When the schedule is due next. Not a change of the connector.';
comment on column sync.connector.retired_at is
  'Deleted for its clients: kept because runs point at it. Its key is then made of its id, so that it can be given again.';

create table sync.connector_secret (
  tenant_id uuid not null,
  connector_id uuid not null,
  name text not null,
  sealed text not null,
  updated_at timestamptz not null default now(),
  constraint connector_secret_pk primary key (tenant_id, connector_id, name),
  constraint connector_secret_connector_fk foreign key (tenant_id, connector_id)
    references sync.connector (tenant_id, id),
  constraint connector_secret_form check (sealed ~ '^v1\.[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$')
);
comment on column sync.connector_secret.sealed is
  'Encrypted with a key of its own (AES-256-GCM), which is encrypted with the key that is named. src/secret/seal.ts.';

-- An uploaded file, until its run has read it.
create table sync.upload_chunk (
  tenant_id uuid not null,
  upload_id uuid not null,
  index integer not null,
  content bytea not null,
  stored_at timestamptz not null default now(),
  constraint upload_chunk_pk primary key (tenant_id, upload_id, index)
);
-- Serves the removal of what no run has come to.
create index upload_chunk_by_stored_at on sync.upload_chunk (tenant_id, stored_at);

alter table sync.run
  drop constraint run_source_known,
  drop constraint run_status_known,
  drop constraint run_finished_when_not_running,
  drop constraint run_failure_when_failed,
  drop constraint run_failure_known,
  alter column fetched_count set default 0,
  alter column started_at drop not null,
  add column mode text not null default 'apply',
  add column trigger text not null default 'push',
  add column created_at timestamptz not null default now(),
  add column upload_id uuid,
  add column input_sha256 text,
  add column valid_count integer not null default 0,
  add column invalid_count integer not null default 0,
  add column moved_count integer not null default 0,
  add column reactivated_count integer not null default 0,
  add column missing_count integer not null default 0,
  add column applied_count integer not null default 0,
  add column breaches jsonb not null default '[]',
  add column failure_message text,
  add column diff_hash text,
  add column rollback_of uuid,
  add column override_safety boolean not null default false,
  add column approved boolean not null default false,
  add column cancel_asked boolean not null default false,
  add column reason text,
  add column attempt integer not null default 0,
  add column holder uuid,
  add column revision integer not null default 1,
  add constraint run_source_known check (source in ('inline', 'connector')),
  add constraint run_mode_known check (mode in ('dry_run', 'apply', 'rollback')),
  add constraint run_trigger_known check (trigger in ('api', 'schedule', 'upload', 'push')),
  add constraint run_status_known check (
    status in (
      'running', 'queued', 'fetching', 'validating', 'diffing', 'needs_approval', 'applying', 'succeeded', 'partial',
      'failed', 'cancelled'
    )
  ),
  add constraint run_finished_at_its_end check (
    (finished_at is not null) = (status in ('succeeded', 'partial', 'failed', 'cancelled'))
  ),
  add constraint run_failure_when_failed check ((failure is not null) = (status = 'failed')),
  add constraint run_failure_form check (failure ~ '^[a-z][a-z0-9_]{0,63}$'),
  add constraint run_rollback_of_fk foreign key (tenant_id, rollback_of) references sync.run (tenant_id, id);
-- The owner sees rows only while row security is not forced.
alter table sync.run no force row level security;
update sync.run set created_at = started_at;
alter table sync.run force row level security;
comment on column sync.run.holder is
  'The worker that carries it out. Whatever a worker writes, it writes only while it stands here.';
comment on column sync.run.revision is 'Counts what clients can see change.';

-- INVARIANT: one run a connector at a time. Pushes, which are short and follow each other in the universe, are excepted.
create unique index run_one_a_connector on sync.run (tenant_id, connector_id)
  where source = 'connector' and status in ('queued', 'fetching', 'validating', 'diffing', 'applying');
-- Serves the list by status, and the search for a run that waits for approval.
create index run_by_status on sync.run (tenant_id, status, id);
create index run_rollback_of on sync.run (tenant_id, rollback_of) where rollback_of is not null;

-- The rows of a source, while they are compared.
create table sync.staged_row (
  tenant_id uuid not null,
  run_id uuid not null,
  row integer not null,
  source_key text,
  parent_key text,
  content jsonb,
  hash bytea,
  state text not null,
  depth integer,
  constraint staged_row_pk primary key (tenant_id, run_id, row),
  constraint staged_row_state_known check (state in ('valid', 'invalid')),
  constraint staged_row_valid_is_whole check (state = 'invalid' or source_key is not null and content is not null)
);
create index staged_row_by_key on sync.staged_row (tenant_id, run_id, source_key);
create index staged_row_by_parent on sync.staged_row (tenant_id, run_id, parent_key) where parent_key is not null;

-- What connectors have brought. It holds no content: the universe does.
create table sync.known_row (
  tenant_id uuid not null,
  scope text not null,
  source_key text not null,
  connector_id uuid not null,
  hash bytea,
  run_id uuid,
  missing_since timestamptz,
  constraint known_row_pk primary key (tenant_id, scope, source_key),
  constraint known_row_connector_fk foreign key (tenant_id, connector_id) references sync.connector (tenant_id, id)
);
comment on column sync.known_row.scope is 'The dataset; of hierarchies with the key of the hierarchy.';
comment on column sync.known_row.hash is
  'Of the row as it was taken in. Null: somebody else has written it since, or how it stands is not known.';
create index known_row_by_connector on sync.known_row (tenant_id, connector_id, source_key);

create table sync.run_change (
  tenant_id uuid not null,
  run_id uuid not null,
  seq integer not null,
  op text not null,
  source_key text not null,
  depth integer not null default 1,
  before jsonb,
  after jsonb,
  applied_at timestamptz,
  error text,
  constraint run_change_pk primary key (tenant_id, run_id, seq),
  constraint run_change_key_unique unique (tenant_id, run_id, source_key),
  constraint run_change_run_fk foreign key (tenant_id, run_id) references sync.run (tenant_id, id),
  constraint run_change_op_known check (op in ('create', 'update', 'move', 'deactivate', 'reactivate')),
  constraint run_change_before_unless_new check ((before is null) = (op = 'create')),
  constraint run_change_applied_once check (applied_at is null or error is null)
);

create table sync.run_error (
  tenant_id uuid not null,
  run_id uuid not null,
  seq integer not null,
  row integer,
  source_key text,
  field text,
  code text not null,
  message text not null,
  value_excerpt text,
  constraint run_error_pk primary key (tenant_id, run_id, seq),
  constraint run_error_run_fk foreign key (tenant_id, run_id) references sync.run (tenant_id, id)
);

call tenancy.protect_table('sync.connector_secret', 'postern_sync', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('sync.upload_chunk', 'postern_sync', array['select', 'insert', 'delete']);
call tenancy.protect_table('sync.staged_row', 'postern_sync', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('sync.known_row', 'postern_sync', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('sync.run_change', 'postern_sync', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('sync.run_error', 'postern_sync', array['select', 'insert', 'delete']);
