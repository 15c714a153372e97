-- Pushes of SCIM users that are not finished, so that a worker can correct what a killed process left.

create table sync.scim_pending (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  person_key text not null,
  pushed jsonb,
  fallback jsonb not null,
  unit_keys text[] not null,
  created_at timestamptz not null default now(),
  constraint scim_pending_pk primary key (tenant_id, id),
  constraint scim_pending_pushed_is_object check (jsonb_typeof(pushed) = 'object'),
  constraint scim_pending_fallback_is_object check (jsonb_typeof(fallback) = 'object')
);
comment on table sync.scim_pending is
  'Pushes of SCIM users whose outcome is not stored. If one is older than any push may take, the universe gets what is stored.';
comment on column sync.scim_pending.pushed is 'The person as pushed. Null: only units were pushed.';
comment on column sync.scim_pending.fallback is 'The person if no user is stored.';
call tenancy.protect_table('sync.scim_pending', 'postern_sync', array['select', 'insert', 'delete']);
