-- What identity providers have sent over SCIM (RFC 7643): kept as they sent it, since they ask for it again.

create table sync.scim_user (
  tenant_id uuid not null,
  id uuid not null,
  user_name text not null,
  external_id text,
  person_key text not null,
  email text,
  active boolean not null,
  unit_key text,
  division_key text,
  content jsonb not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  deleted_at timestamptz(3),
  version integer not null default 1,
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
create unique index scim_user_user_name on sync.scim_user (tenant_id, lower(user_name)) where deleted_at is null;
create unique index scim_user_external_id on sync.scim_user (tenant_id, external_id) where deleted_at is null;
create unique index scim_user_person_key on sync.scim_user (tenant_id, person_key) where deleted_at is null;
-- Serves the search for who is deleted and holds an address.
create index scim_user_gone_email on sync.scim_user (tenant_id, email) where deleted_at is not null;
-- Serve the question whether a unit has anybody left.
create index scim_user_by_unit on sync.scim_user (tenant_id, unit_key) where deleted_at is null and active;
create index scim_user_by_division on sync.scim_user (tenant_id, division_key) where deleted_at is null and active;

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

create table sync.scim_member (
  tenant_id uuid not null,
  group_id uuid not null,
  member_id uuid not null,
  constraint scim_member_pk primary key (tenant_id, group_id, member_id),
  constraint scim_member_group_fk foreign key (tenant_id, group_id) references sync.scim_group (tenant_id, id)
);
comment on column sync.scim_member.member_id is 'A user or a group.';
create index scim_member_by_member on sync.scim_member (tenant_id, member_id);

call tenancy.protect_table('sync.scim_user', 'postern_sync', array['select', 'insert', 'update']);
call tenancy.protect_table('sync.scim_group', 'postern_sync', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('sync.scim_member', 'postern_sync', array['select', 'insert', 'delete']);
