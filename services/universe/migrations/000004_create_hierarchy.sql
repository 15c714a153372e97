-- Hierarchies: several trees of organizational units a tenant, each with all its versions.

create table universe.hierarchy (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key text not null,
  name text not null,
  kind text not null,
  is_primary boolean not null,
  version integer not null default 0,
  last_number integer not null default 0,
  node_count integer not null default 0,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  constraint hierarchy_pk primary key (tenant_id, id),
  constraint hierarchy_key_unique unique (tenant_id, key),
  constraint hierarchy_key_form check (key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
  constraint hierarchy_name_length check (char_length(name) between 1 and 255),
  constraint hierarchy_kind_known check (
    kind in ('legal_entity', 'management', 'process', 'geography', 'technology', 'custom')
  ),
  constraint hierarchy_version_not_negative check (version >= 0),
  constraint hierarchy_last_number_not_negative check (last_number >= 0),
  constraint hierarchy_node_count_not_negative check (node_count >= 0),
  constraint hierarchy_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on column universe.hierarchy.version is 'Rises by one with each push that changes a node.';
comment on column universe.hierarchy.last_number is 'The last number given to a node; numbers may be left out.';
comment on column universe.hierarchy.node_count is 'Active nodes.';
create unique index hierarchy_one_primary on universe.hierarchy (tenant_id) where is_primary;

create table universe.hierarchy_version (
  tenant_id uuid not null,
  hierarchy_id uuid not null,
  version integer not null,
  run_id uuid not null,
  applied_at timestamptz(3) not null default now(),
  constraint hierarchy_version_pk primary key (tenant_id, hierarchy_id, version),
  constraint hierarchy_version_hierarchy_fk foreign key (tenant_id, hierarchy_id)
    references universe.hierarchy (tenant_id, id),
  constraint hierarchy_version_positive check (version > 0)
);
comment on table universe.hierarchy_version is 'When each version came to be: how a date leads to a version.';

create table universe.node (
  tenant_id uuid not null,
  id uuid not null,
  hierarchy_id uuid not null,
  number integer not null,
  node_key text not null,
  parent_id uuid,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_ids uuid[] not null default '{}',
  path text collate "C" not null,
  depth integer not null generated always as (char_length(path) / 8) stored,
  since_version integer not null,
  constraint node_pk primary key (tenant_id, id),
  constraint node_key_unique unique (tenant_id, hierarchy_id, node_key),
  constraint node_path_unique unique (tenant_id, hierarchy_id, path),
  constraint node_hierarchy_fk foreign key (tenant_id, hierarchy_id) references universe.hierarchy (tenant_id, id),
  constraint node_path_form check (path ~ '^([0-9a-f]{8}){1,32}$' and right(path, 8) = universe.path_label(number)),
  constraint node_number_positive check (number > 0),
  constraint node_key_length check (char_length(node_key) between 1 and 255),
  constraint node_name_length check (char_length(name) between 1 and 255),
  constraint node_level_name_length check (char_length(level_name) between 1 and 255),
  constraint node_head_is_object check (jsonb_typeof(head) = 'object'),
  constraint node_status_known check (status in ('active', 'inactive')),
  constraint node_valid_from_range check (valid_from between date '1900-01-01' and date '9999-12-31'),
  constraint node_valid_to_range check (valid_to between date '1900-01-01' and date '9999-12-31'),
  constraint node_valid_in_order check (valid_from <= valid_to),
  constraint node_entity_ids_few check (cardinality(entity_ids) <= 50),
  constraint node_since_version_positive check (since_version > 0)
);
comment on table universe.node is 'A unit of a hierarchy as it is now. Never deleted: a unit that is gone is inactive.';
comment on column universe.node.path is 'The labels of the numbers from the root down to the node.';
comment on column universe.node.since_version is 'The version of the hierarchy since which the node is, and stands, as it does.';
-- Serves the walk down the tree.
create index node_by_parent on universe.node (tenant_id, parent_id);
-- Serves the difference of two versions.
create index node_by_since_version on universe.node (tenant_id, hierarchy_id, since_version);

create table universe.node_history (
  tenant_id uuid not null,
  node_id uuid not null,
  hierarchy_id uuid not null,
  since_version integer not null,
  until_version integer not null,
  parent_id uuid,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_ids uuid[] not null,
  path text collate "C" not null,
  depth integer not null generated always as (char_length(path) / 8) stored,
  constraint node_history_pk primary key (tenant_id, node_id, since_version),
  constraint node_history_node_fk foreign key (tenant_id, node_id) references universe.node (tenant_id, id),
  constraint node_history_in_order check (0 < since_version and since_version < until_version)
);
comment on table universe.node_history is 'What a node was in the versions from since_version to before until_version.';
create index node_history_by_path on universe.node_history (tenant_id, hierarchy_id, path);
create index node_history_by_since_version on universe.node_history (tenant_id, hierarchy_id, since_version);

create table universe.node_entity (
  tenant_id uuid not null,
  node_id uuid not null,
  entity_id uuid not null,
  constraint node_entity_pk primary key (tenant_id, node_id, entity_id),
  constraint node_entity_node_fk foreign key (tenant_id, node_id) references universe.node (tenant_id, id),
  constraint node_entity_entity_fk foreign key (tenant_id, entity_id) references universe.entity (tenant_id, id)
);
comment on table universe.node_entity is 'The links of universe.node.entity_ids as rows. Written by its triggers alone.';
create index node_entity_by_entity on universe.node_entity (tenant_id, entity_id);

create table universe.staged_node (
  tenant_id uuid not null,
  run_id uuid not null,
  index integer not null,
  node_id uuid not null,
  is_new boolean not null,
  node_key text not null,
  parent_key text,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_keys text[] not null,
  constraint staged_node_pk primary key (tenant_id, run_id, index),
  constraint staged_node_key_unique unique (tenant_id, run_id, node_key)
);
comment on table universe.staged_node is
  'The rows of a push while its transaction lasts: compared and applied as a set, gone at its end.';

-- INVARIANT: what a node is never changes, and its versions go forward.
create function universe.guard_node() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if (new.tenant_id, new.id, new.hierarchy_id, new.number, new.node_key)
    is distinct from (old.tenant_id, old.id, old.hierarchy_id, old.number, old.node_key)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_identity_fixed',
      message = 'the identity of a node never changes';
  end if;
  if new.since_version < old.since_version then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_versions_rise',
      message = 'the versions of a node go forward';
  end if;
  return new;
end
$$;

create trigger node_guard before update on universe.node
  for each row execute function universe.guard_node();

-- What a node was before a new version is kept, whoever changes it.
create function universe.keep_node_history() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  insert into universe.node_history (
    tenant_id, node_id, hierarchy_id, since_version, until_version, parent_id, name, level_name, head, status,
    valid_from, valid_to, entity_ids, path
  )
  select
    before.tenant_id, before.id, before.hierarchy_id, before.since_version, after.since_version, before.parent_id,
    before.name, before.level_name, before.head, before.status, before.valid_from, before.valid_to, before.entity_ids,
    before.path
  from old_node before
  join new_node after on after.tenant_id = before.tenant_id and after.id = before.id
  where after.since_version <> before.since_version;

  delete from universe.node_entity link
  using old_node before, new_node after
  where after.tenant_id = before.tenant_id and after.id = before.id
    and after.entity_ids is distinct from before.entity_ids
    and link.tenant_id = before.tenant_id and link.node_id = before.id
    and link.entity_id <> all (after.entity_ids);

  insert into universe.node_entity (tenant_id, node_id, entity_id)
  select after.tenant_id, after.id, linked.entity_id
  from new_node after
  join old_node before on before.tenant_id = after.tenant_id and before.id = after.id
  cross join unnest(after.entity_ids) as linked (entity_id)
  where after.entity_ids is distinct from before.entity_ids
  on conflict do nothing;
  return null;
end
$$;

create trigger node_history_after_update after update on universe.node
  referencing old table as old_node new table as new_node
  for each statement execute function universe.keep_node_history();

create function universe.link_new_nodes() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  insert into universe.node_entity (tenant_id, node_id, entity_id)
  select made.tenant_id, made.id, linked.entity_id
  from new_node made
  cross join unnest(made.entity_ids) as linked (entity_id)
  on conflict do nothing;
  return null;
end
$$;

create trigger node_links_after_insert after insert on universe.node
  referencing new table as new_node
  for each statement execute function universe.link_new_nodes();

-- INVARIANT: in every version each node stands below its parent, of the same hierarchy, by its path; no circle can have
-- such paths. Asked for the hierarchy as a whole when its version is recorded, at the end of the transaction: a foreign key
-- would ask for each row. Hash joins: PostgreSQL knows nothing yet of how many rows the transaction has written.
create function universe.guard_hierarchy_tree() returns trigger
  language plpgsql
  set search_path = ''
  set enable_nestloop = off
as $$
begin
  perform
  from universe.node n
  left join universe.node parent on parent.tenant_id = n.tenant_id and parent.id = n.parent_id
  where n.tenant_id = new.tenant_id and n.hierarchy_id = new.hierarchy_id
    and (
      n.path <> coalesce(parent.path, '') || universe.path_label(n.number)
      or n.parent_id is not null and parent.id is null
      or parent.hierarchy_id <> n.hierarchy_id
      or n.since_version > new.version
    )
  limit 1;
  if found then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_tree',
      message = 'each node stands below its parent';
  end if;
  return null;
end
$$;

create constraint trigger hierarchy_version_is_tree after insert on universe.hierarchy_version
  deferrable initially deferred
  for each row execute function universe.guard_hierarchy_tree();

create trigger node_history_only_grows before update or delete on universe.node_history
  for each row execute function tenancy.refuse_change();
create trigger node_history_never_emptied before truncate on universe.node_history
  for each statement execute function tenancy.refuse_change();
create trigger hierarchy_version_only_grows before update or delete on universe.hierarchy_version
  for each row execute function tenancy.refuse_change();
create trigger hierarchy_version_never_emptied before truncate on universe.hierarchy_version
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('universe.hierarchy', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.protect_table('universe.hierarchy_version', 'postern_universe', array['select', 'insert']);
call tenancy.protect_table('universe.node', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.protect_table('universe.node_history', 'postern_universe', array['select', 'insert']);
call tenancy.protect_table('universe.node_entity', 'postern_universe', array['select', 'insert', 'delete']);
call tenancy.protect_table('universe.staged_node', 'postern_universe', array['select', 'insert', 'delete']);
