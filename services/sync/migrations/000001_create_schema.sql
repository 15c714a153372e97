-- Connectors, their runs, and what identity providers sent over SCIM.

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
  hierarchy jsonb,
  config jsonb not null default '{}',
  mapping jsonb not null default '[]',
  schedule_cron text,
  schedule_time_zone text,
  next_run_at timestamptz,
  missing_policy text not null default 'flag',
  safety jsonb not null default
    '{"max_deactivate_pct": 10, "max_deactivate": 50, "min_rows": 1, "max_change_pct": 40}',
  consecutive_failures integer not null default 0,
  retired_at timestamptz,
  telling integer not null default 0,
  retired_key text,
  constraint connector_pk primary key (tenant_id, id),
  constraint connector_key_unique unique (tenant_id, key),
  constraint connector_key_form check (key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
  constraint connector_name_length check (char_length(name) between 1 and 255),
  constraint connector_type_known check (
    type in ('csv', 'inline_json', 'http_json', 'scim', 'scim_inbound', 'ldap', 'sql')
  ),
  constraint connector_dataset_known check (
    dataset in ('org_structure', 'auditable_entities', 'people', 'test_procedures')
  ),
  constraint connector_state_known check (state in ('active', 'paused', 'error')),
  constraint connector_missing_policy_known check (missing_policy in ('ignore', 'flag', 'deactivate')),
  constraint connector_schedule_whole check ((schedule_cron is null) = (schedule_time_zone is null)),
  constraint connector_failures_not_negative check (consecutive_failures >= 0),
  constraint connector_hierarchy_is_object check (jsonb_typeof(hierarchy) = 'object'),
  constraint connector_config_is_object check (jsonb_typeof(config) = 'object')
);
comment on table sync.connector is 'Where the audit universe comes from. The connector `inline` stands for pushes and is made by the first one.';
comment on column sync.connector.last_run_at is 'When the last run began. Not a change of the connector: version and updated_at stay.';
comment on column sync.connector.next_run_at is 'When the schedule is due next. Not a change of the connector.';
comment on column sync.connector.retired_at is
  'Deleted for its clients: kept because runs point at it. Its key is then a random one, so that its own can be given again.';
comment on column sync.connector.telling is
  'How often a worker has begun to tell the universe. By it the universe knows who comes too late. Not a change of the connector.';
comment on column sync.connector.retired_key is 'The key that it had until it was retired. Another connector may have it now.';

create function sync.keep_owners() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_kept',
    message = 'runs and connectors are never deleted, and keep their ids';
end
$$;

create trigger connector_kept before delete or update of tenant_id, id on sync.connector
  for each statement execute function sync.keep_owners();
create trigger connector_never_emptied before truncate on sync.connector
  for each statement execute function sync.keep_owners();

call tenancy.protect_table('sync.connector', 'postern_sync', array['select', 'insert', 'update']);

create table sync.run (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  connector_id uuid,
  source text not null,
  status text not null default 'running',
  fetched_count integer not null default 0,
  created_count integer not null default 0,
  updated_count integer not null default 0,
  unchanged_count integer not null default 0,
  failure text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  request_id text not null,
  started_at timestamptz default now(),
  finished_at timestamptz,
  deactivated_count integer not null default 0
    constraint run_deactivated_not_negative check (deactivated_count >= 0),
  mode text not null default 'apply',
  trigger text not null default 'push',
  created_at timestamptz not null default now(),
  upload_id uuid,
  input_sha256 text,
  valid_count integer not null default 0,
  invalid_count integer not null default 0,
  moved_count integer not null default 0,
  reactivated_count integer not null default 0,
  missing_count integer not null default 0,
  applied_count integer not null default 0,
  breaches jsonb not null default '[]',
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
  details_cleared_at timestamptz,
  constraint run_pk primary key (tenant_id, id),
  constraint run_connector_fk foreign key (tenant_id, connector_id) references sync.connector (tenant_id, id),
  constraint run_source_known check (source in ('inline', 'connector')),
  constraint run_status_known check (
    status in (
      'running', 'queued', 'fetching', 'validating', 'diffing', 'needs_approval', 'applying', 'succeeded', 'partial',
      'failed', 'cancelled'
    )
  ),
  constraint run_failure_when_failed check ((failure is not null) = (status = 'failed')),
  constraint run_counts_not_negative check (
    fetched_count >= 0 and created_count >= 0 and updated_count >= 0 and unchanged_count >= 0
  ),
  constraint run_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint run_mode_known check (mode in ('dry_run', 'apply', 'rollback')),
  constraint run_trigger_known check (trigger in ('api', 'schedule', 'upload', 'push')),
  constraint run_finished_at_its_end check (
    (finished_at is not null) = (status in ('succeeded', 'partial', 'failed', 'cancelled'))
  ),
  constraint run_failure_form check (failure ~ '^[a-z][a-z0-9_]{0,63}$'),
  constraint run_rollback_of_fk foreign key (tenant_id, rollback_of) references sync.run (tenant_id, id)
);
comment on table sync.run is 'One attempt to bring the universe up to date, from its start to its outcome.';
comment on column sync.run.failure is
  'Why a run failed. outcome_unknown: the universe may hold the rows; pushing them again is harmless.';
comment on column sync.run.holder is
  'The worker that carries it out. Whatever a worker writes, it writes only while it stands here.';
comment on column sync.run.revision is 'Counts what clients can see change.';
comment on column sync.run.details_cleared_at is 'When its errors were removed, and its changes where none was ever to be applied.';
create index run_connector on sync.run (tenant_id, connector_id, id);
-- Serves the search for runs that a crash has left behind; holds only runs in progress.
create index run_running on sync.run (tenant_id, started_at) where status = 'running';
-- INVARIANT: a connector has one run at a time. Pushes are exempt: they are short, and the universe applies them in turn.
create unique index run_one_a_connector on sync.run (tenant_id, connector_id)
  where source = 'connector' and status in ('queued', 'fetching', 'validating', 'diffing', 'applying');
-- Serves the list by status, and the search for a run that waits for approval.
create index run_by_status on sync.run (tenant_id, status, id);
create index run_rollback_of on sync.run (tenant_id, rollback_of) where rollback_of is not null;
-- Serves the search for runs that still have their errors and changes; a run leaves it for good.
create index run_with_details on sync.run (tenant_id, finished_at)
  where source = 'connector' and finished_at is not null and details_cleared_at is null;

create trigger run_kept before delete or update of tenant_id, id on sync.run
  for each statement execute function sync.keep_owners();
create trigger run_never_emptied before truncate on sync.run
  for each statement execute function sync.keep_owners();

call tenancy.protect_table('sync.run', 'postern_sync', array['select', 'insert', 'update']);

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

call tenancy.protect_table('sync.connector_secret', 'postern_sync', array['select', 'insert', 'update', 'delete']);

-- An uploaded file, until its run has read it.
create table sync.upload_chunk (
  tenant_id uuid not null,
  upload_id uuid not null,
  index integer not null,
  content bytea not null,
  stored_at timestamptz not null default now(),
  constraint upload_chunk_pk primary key (tenant_id, upload_id, index)
);
alter table sync.upload_chunk
  alter column content set storage external;
-- Serves the removal of uploads that no run has read.
create index upload_chunk_by_stored_at on sync.upload_chunk (tenant_id, stored_at);

call tenancy.protect_table('sync.upload_chunk', 'postern_sync', array['select', 'insert', 'delete']);

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
  severity text not null default 'error',
  constraint run_error_pk primary key (tenant_id, run_id, seq),
  constraint run_error_run_fk foreign key (tenant_id, run_id) references sync.run (tenant_id, id),
  constraint run_error_severity_known check (severity in ('error', 'warning'))
);
comment on column sync.run_error.severity is 'error: the row, or what it would change, was not taken in. warning: it was.';

call tenancy.protect_table('sync.run_error', 'postern_sync', array['select', 'insert', 'delete']);

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
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3),
  version integer not null default 1,
  manager text,
  constraint scim_user_pk primary key (tenant_id, id),
  constraint scim_user_user_name_length check (char_length(user_name) between 1 and 255),
  constraint scim_user_person_key_length check (char_length(person_key) between 1 and 255),
  constraint scim_user_content_is_object check (jsonb_typeof(content) = 'object'),
  constraint scim_user_version_positive check (version > 0)
);
comment on column sync.scim_user.person_key is
  'The external_id of the person in the universe: what the user was first known by. It never changes.';
comment on column sync.scim_user.unit_key is 'The lowest node of the hierarchy `scim` that the user belongs to.';
comment on column sync.scim_user.deleted_at is
  'Deleted for the provider. Kept, because the person is, and may hold an address that somebody else is given.';
comment on column sync.scim_user.manager is 'The id of another user, or the externalId, as the provider has sent it. Nobody may have it (yet).';
create unique index scim_user_user_name on sync.scim_user (tenant_id, lower(user_name)) where deleted_at is null;
create unique index scim_user_external_id on sync.scim_user (tenant_id, external_id) where deleted_at is null;
create unique index scim_user_person_key on sync.scim_user (tenant_id, person_key) where deleted_at is null;
-- Serve the question whether a unit still has users.
create index scim_user_by_unit on sync.scim_user (tenant_id, unit_key) where deleted_at is null and active;
create index scim_user_by_division on sync.scim_user (tenant_id, division_key) where deleted_at is null and active;
-- Serves the question which units a user manages.
create index scim_user_by_manager on sync.scim_user (tenant_id, manager) where deleted_at is null and active;

call tenancy.protect_table('sync.scim_user', 'postern_sync', array['select', 'insert', 'update']);

create table sync.scim_group (
  tenant_id uuid not null,
  id uuid not null,
  display_name text not null,
  external_id text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint scim_group_pk primary key (tenant_id, id),
  constraint scim_group_display_name_length check (char_length(display_name) between 1 and 255),
  constraint scim_group_version_positive check (version > 0)
);
create unique index scim_group_display_name on sync.scim_group (tenant_id, lower(display_name));

call tenancy.protect_table('sync.scim_group', 'postern_sync', array['select', 'insert', 'update', 'delete']);

create table sync.scim_member (
  tenant_id uuid not null,
  group_id uuid not null,
  member_id uuid not null,
  constraint scim_member_pk primary key (tenant_id, group_id, member_id),
  constraint scim_member_group_fk foreign key (tenant_id, group_id) references sync.scim_group (tenant_id, id)
);
comment on column sync.scim_member.member_id is 'A user or a group.';
create index scim_member_by_member on sync.scim_member (tenant_id, member_id);

call tenancy.protect_table('sync.scim_member', 'postern_sync', array['select', 'insert', 'delete']);

call tenancy.create_idempotency_table('sync', 'postern_sync');
