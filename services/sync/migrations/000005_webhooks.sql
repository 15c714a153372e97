-- Endpoints of webhooks, what they are sent, and runs as events.
-- suits the running release: it knows none of the tables, and writes runs as before.

create trigger notes_new_finished after insert on sync.run for each row
  when (new.finished_at is not null) execute function tenancy.note_event('id', 'sync_run.finished');
create trigger notes_finished after update on sync.run for each row
  when (old.finished_at is null and new.finished_at is not null)
  execute function tenancy.note_event('id', 'sync_run.finished');
create trigger notes_needs_approval after update on sync.run for each row
  when (old.status is distinct from new.status and new.status = 'needs_approval')
  execute function tenancy.note_event('id', 'sync_run.needs_approval');

-- How far the change feed of a tenant has been turned into deliveries.
create table sync.webhook_feed (
  tenant_id uuid not null,
  work_id uuid not null default gen_random_uuid(),
  position bigint not null,
  ordinal integer,
  pruned_at timestamptz,
  constraint webhook_feed_pk primary key (tenant_id)
);
comment on column sync.webhook_feed.work_id is 'The work that is granted to workers.';
call tenancy.protect_table('sync.webhook_feed', 'postern_sync', array['select', 'insert', 'update']);

create table sync.webhook_endpoint (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  url text not null,
  description text not null,
  events text[] not null,
  ca text,
  state text not null default 'enabled',
  failing_since timestamptz(3),
  failures integer not null default 0,
  retry_at timestamptz(3),
  paused_at timestamptz(3),
  last_delivered_at timestamptz(3),
  last_error text,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3),
  version integer not null default 1,
  constraint webhook_endpoint_pk primary key (tenant_id, id),
  constraint webhook_endpoint_state_known check (state in ('enabled', 'disabled', 'paused')),
  constraint webhook_endpoint_paused_whole check ((state = 'paused') = (paused_at is not null)),
  constraint webhook_endpoint_events_some check (cardinality(events) between 1 and 50)
);
comment on column sync.webhook_endpoint.id is 'Also the work that is granted to workers, hence random.';
comment on column sync.webhook_endpoint.version is 'Counts edits; outcomes of deliveries leave it.';
call tenancy.protect_table('sync.webhook_endpoint', 'postern_sync', array['select', 'insert', 'update']);

create table sync.webhook_secret (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  id uuid not null default uuidv7(),
  sealed text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  constraint webhook_secret_pk primary key (tenant_id, endpoint_id, id),
  constraint webhook_secret_endpoint_fk foreign key (tenant_id, endpoint_id)
    references sync.webhook_endpoint (tenant_id, id),
  constraint webhook_secret_form check (sealed ~ '^v1\.[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$')
);
comment on column sync.webhook_secret.expires_at is 'Set by a rotation: deliveries are also signed with it until then.';
call tenancy.protect_table('sync.webhook_secret', 'postern_sync', array['select', 'insert', 'update', 'delete']);

create table sync.webhook_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  type text not null,
  resource_id uuid not null,
  version integer,
  occurred_at timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  constraint webhook_event_pk primary key (tenant_id, id)
);
-- Serves the removal of old events.
create index webhook_event_by_age on sync.webhook_event (tenant_id, created_at);
call tenancy.protect_table('sync.webhook_event', 'postern_sync', array['select', 'insert', 'delete']);

create table sync.webhook_delivery (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  resource_id uuid not null,
  state text not null default 'pending',
  attempts integer not null default 0,
  first_attempt_at timestamptz(3),
  last_attempt_at timestamptz(3),
  next_attempt_at timestamptz(3) not null default now(),
  status integer,
  duration_ms integer,
  error text,
  answer text,
  constraint webhook_delivery_pk primary key (tenant_id, endpoint_id, event_id),
  constraint webhook_delivery_endpoint_fk foreign key (tenant_id, endpoint_id)
    references sync.webhook_endpoint (tenant_id, id),
  constraint webhook_delivery_event_fk foreign key (tenant_id, event_id)
    references sync.webhook_event (tenant_id, id),
  constraint webhook_delivery_state_known check (state in ('pending', 'delivered', 'failed')),
  constraint webhook_delivery_attempts_not_negative check (attempts >= 0)
);
comment on column sync.webhook_delivery.event_id is 'Also the webhook-id, and the order of deliveries: later events have greater ids.';
-- Serve the question whether an endpoint has anything to send, its next deliveries, and whether an older event of the resource
-- still waits.
create index webhook_delivery_due on sync.webhook_delivery (tenant_id, endpoint_id, next_attempt_at) where state = 'pending';
create index webhook_delivery_pending on sync.webhook_delivery (tenant_id, endpoint_id, event_id) where state = 'pending';
create index webhook_delivery_of_resource on sync.webhook_delivery (tenant_id, endpoint_id, resource_id, event_id)
  where state = 'pending';
-- Serves the removal of old events.
create index webhook_delivery_of_event on sync.webhook_delivery (tenant_id, event_id);
call tenancy.protect_table('sync.webhook_delivery', 'postern_sync', array['select', 'insert', 'update', 'delete']);

-- What was done to an endpoint, and by whom.
create table sync.webhook_trail (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  endpoint_id uuid not null,
  type text not null,
  at timestamptz(3) not null default clock_timestamp(),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  detail jsonb not null default '{}',
  constraint webhook_trail_pk primary key (tenant_id, id),
  constraint webhook_trail_type_known check (
    type in ('created', 'changed', 'secret_rotated', 'sent', 'paused', 'deleted')
  ),
  constraint webhook_trail_detail_object check (jsonb_typeof(detail) = 'object')
);
create index webhook_trail_of_endpoint on sync.webhook_trail (tenant_id, endpoint_id, id desc);
create trigger webhook_trail_only_grows before update or delete on sync.webhook_trail
  for each row execute function tenancy.refuse_change();
create trigger webhook_trail_never_emptied before truncate on sync.webhook_trail
  for each statement execute function tenancy.refuse_change();
call tenancy.protect_table('sync.webhook_trail', 'postern_sync', array['select', 'insert']);
