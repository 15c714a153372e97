-- Auditable entities, hierarchies, test procedures and people.

create schema universe;

-- The label of a number in a path: fixed in length, so that paths sort in the order of the tree. It has no settings of its
-- own, so that PostgreSQL can inline it.
create function universe.path_label(number integer) returns text
  language sql
  immutable
  strict
  parallel safe
  return lpad(to_hex(number), 8, '0');
grant execute on function universe.path_label(integer) to postern_universe;

create table universe.reference_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint reference_counter_pk primary key (tenant_id),
  constraint reference_counter_not_negative check (last_number >= 0)
);
comment on table universe.reference_counter is
  'The last number given out in AE-<number>, one row a tenant. Its lock is the tenant''s lock for changes of the tree.';

call tenancy.protect_table('universe.reference_counter', 'postern_universe', array['select', 'insert', 'update']);

create table universe.entity (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  number integer not null,
  reference text not null generated always as (
    'AE-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
  external_id text,
  name text not null,
  description text,
  type text not null,
  status text not null,
  parent_id uuid,
  owner jsonb,
  audit_lead jsonb,
  executive jsonb,
  inherent_rating text,
  inherent_score double precision,
  residual_rating text,
  residual_score double precision,
  risk_assessed_on date,
  audit_frequency_months integer,
  last_audit_on date,
  last_audit_opinion text,
  regulatory_next_due_on date,
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  next_audit_due_on date generated always as (
    least(
      case when last_audit_on is not null and audit_frequency_months is not null then
        least((last_audit_on + make_interval(months => audit_frequency_months))::date, date '9999-12-31')
      end,
      regulatory_next_due_on
    )
  ) stored,
  source_connector_id text,
  source_first_seen_at timestamptz(3),
  source_last_seen_at timestamptz(3),
  source_missing_since timestamptz(3),
  constraint entity_pk primary key (tenant_id, id),
  constraint entity_number_unique unique (tenant_id, number),
  constraint entity_reference_unique unique (tenant_id, reference),
  constraint entity_external_id_unique unique (tenant_id, external_id),
  constraint entity_number_positive check (number > 0),
  constraint entity_external_id_length check (char_length(external_id) between 1 and 255),
  constraint entity_name_length check (char_length(name) between 1 and 255),
  constraint entity_description_length check (char_length(description) <= 20000),
  constraint entity_type_known check (
    type in (
      'legal_entity', 'business_unit', 'department', 'process', 'product', 'it_system', 'location', 'vendor',
      'project', 'regulation', 'other'
    )
  ),
  constraint entity_status_known check (status in ('draft', 'active', 'archived')),
  constraint entity_parent_is_another check (parent_id <> id),
  constraint entity_owner_is_object check (jsonb_typeof(owner) = 'object'),
  constraint entity_audit_lead_is_object check (jsonb_typeof(audit_lead) = 'object'),
  constraint entity_executive_is_object check (jsonb_typeof(executive) = 'object'),
  constraint entity_inherent_rating_known check (inherent_rating in ('critical', 'high', 'medium', 'low')),
  constraint entity_inherent_score_range check (inherent_score between 0 and 100),
  constraint entity_inherent_risk_whole check ((inherent_rating is null) = (inherent_score is null)),
  constraint entity_residual_rating_known check (residual_rating in ('critical', 'high', 'medium', 'low')),
  constraint entity_residual_score_range check (residual_score between 0 and 100),
  constraint entity_residual_risk_whole check ((residual_rating is null) = (residual_score is null)),
  constraint entity_risk_assessed_on_range check (
    risk_assessed_on between date '1900-01-01' and date '9999-12-31'
  ),
  constraint entity_audit_frequency_range check (audit_frequency_months between 1 and 120),
  constraint entity_last_audit_on_range check (last_audit_on between date '1900-01-01' and date '9999-12-31'),
  constraint entity_last_audit_opinion_known check (
    last_audit_opinion in ('satisfactory', 'needs_improvement', 'unsatisfactory')
  ),
  constraint entity_regulatory_next_due_on_range check (
    regulatory_next_due_on between date '1900-01-01' and date '9999-12-31'
  ),
  constraint entity_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint entity_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint entity_version_positive check (version > 0),
  constraint entity_source_whole check (
    (source_connector_id is null) = (source_first_seen_at is null)
    and (source_last_seen_at is null) = (source_missing_since is null)
  )
);
comment on table universe.entity is 'What can be audited, as its source describes it. Never deleted: findings point at it.';
comment on column universe.entity.external_id is 'The source''s own key: by it a push finds the row that it speaks of.';
comment on column universe.entity.created_at is 'Milliseconds, as clients see it.';
comment on column universe.entity.next_audit_due_on is
  'The last audit plus the frequency, or the regulator''s date where that is earlier.';
comment on column universe.entity.source_connector_id is
  'The connector that brings the entity, where it is not the one that has made it.';
comment on column universe.entity.source_first_seen_at is 'Since when that connector brings it.';
comment on column universe.entity.source_last_seen_at is 'Of what is missing: when its source was last read and had it.';
-- One index for each sort order; ties are broken by number.
create index entity_by_name on universe.entity (tenant_id, name, number);
create index entity_by_change on universe.entity (tenant_id, updated_at, number);
create index entity_by_next_audit_due
  on universe.entity (tenant_id, coalesce(next_audit_due_on, date 'infinity'), number);
-- The children of an entity, in the order of their numbers.
create index entity_by_parent_number on universe.entity (tenant_id, parent_id, number);
-- Serves the list of missing entities, by reference.
create index entity_missing on universe.entity (tenant_id, number) where source_missing_since is not null;

-- INVARIANT: what an entity is never changes, its version counts its changes, and its status moves along the state
-- machine only, whoever writes.
create function universe.guard_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if (new.tenant_id, new.id, new.number, new.created_at)
    is distinct from (old.tenant_id, old.id, old.number, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_identity_fixed',
      message = 'the identity and the origin of an entity never change';
  end if;

  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_version_counts',
      message = 'each change of an entity raises its version by one';
  end if;

  if new.status <> old.status
    and (old.status, new.status) not in (('draft', 'active'), ('active', 'archived'), ('archived', 'active'))
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_status_transition',
      message = 'the status cannot move in this way';
  end if;

  return new;
end
$$;

create trigger entity_guard before update on universe.entity
  for each row execute function universe.guard_entity();

-- INVARIANT: a new entity hangs below an existing one, at most 12 deep. An entity whose parent does not exist is reached from
-- no root.
-- New rows are joined by hashing, because PostgreSQL keeps the plan of a connection's first statement, which may insert one row.
create function universe.place_new_entities() returns trigger
  language plpgsql
  set search_path = ''
  set enable_nestloop = off
as $$
declare
  too_deep boolean;
  unreached boolean;
begin
  -- The lock of each tenant, as in universe.place_entities.
  perform
  from universe.reference_counter counter
  where counter.tenant_id in (select made.tenant_id from new_entity made)
  for update;

  with recursive made as materialized (
    select made.tenant_id, made.id, made.parent_id, universe.path_label(made.number) as label from new_entity made
  ),
  -- Once a parent, and by an index: PostgreSQL may take the tenant's entities for a few.
  above as materialized (
    select parent.tenant_id, parent.parent_id, place.path, place.depth
    from (select distinct made.tenant_id, made.parent_id from made where made.parent_id is not null) as parent
    cross join lateral (
      select known.path, known.depth
      from universe.entity_path known
      where known.tenant_id = parent.tenant_id and known.entity_id = parent.parent_id
      limit 1
    ) as place
  ),
  placed as (
    select top.tenant_id, top.id, coalesce(above.path, '') || top.label as path, coalesce(above.depth, 0) + 1 as depth
    from made top
    left join above on above.tenant_id = top.tenant_id and above.parent_id = top.parent_id
    where top.parent_id is null or above.path is not null
    union all
    select child.tenant_id, child.id, placed.path || child.label, placed.depth + 1
    from placed
    join made child on child.tenant_id = placed.tenant_id and child.parent_id = placed.id
    where placed.depth <= 12
  ),
  written as (
    insert into universe.entity_path (tenant_id, entity_id, path)
    select placed.tenant_id, placed.id, placed.path
    from placed
    where placed.depth <= 12
  )
  select coalesce(max(placed.depth), 0) > 12, count(*) < (select count(*) from made)
  into too_deep, unreached
  from placed;

  -- Where something above moves in the same statement, its path is that of before. It is placed anew, with all that hangs below
  -- it, by the trigger for what has moved: too deep is what is so by the parents as they are now.
  if too_deep then
    with recursive above as (
      select made.tenant_id, made.parent_id, 1 as depth
      from new_entity made
      union
      select entity.tenant_id, entity.parent_id, above.depth + 1
      from above
      join universe.entity entity on entity.tenant_id = above.tenant_id and entity.id = above.parent_id
      where above.depth <= 12
    )
    select max(above.depth) > 12 into too_deep from above;
    if not too_deep then
      return null;
    end if;
  end if;

  if too_deep then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_depth',
      message = 'the tree of entities is at most 12 deep';
  end if;
  if unreached then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_acyclic',
      message = 'no entity is above itself, or below what is not there';
  end if;
  return null;
end
$$;

create trigger entity_tree_after_insert after insert on universe.entity
  referencing new table as new_entity
  for each statement execute function universe.place_new_entities();

-- Places entities that have moved.
create function universe.guard_entity_tree() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  moved record;
begin
  for moved in
    select after.tenant_id, array_agg(after.id) as ids
    from new_entity after
    join old_entity before on before.tenant_id = after.tenant_id and before.id = after.id
    where after.parent_id is distinct from before.parent_id
    group by after.tenant_id
  loop
    perform universe.place_entities(moved.tenant_id, moved.ids);
  end loop;
  return null;
end
$$;

create trigger entity_tree_after_update after update on universe.entity
  referencing old table as old_entity new table as new_entity
  for each statement execute function universe.guard_entity_tree();

-- INVARIANT: an entity that other rows refer to is not deleted. Foreign keys would check each row.
create function universe.keep_needed_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.entity child where child.tenant_id = old.tenant_id and child.parent_id = old.id)
      and not exists (
        select from universe.entity_path place where place.tenant_id = old.tenant_id and place.entity_id = old.id
      )
      and not exists (
        select from universe.node_entity link where link.tenant_id = old.tenant_id and link.entity_id = old.id
      )
    then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'entity', constraint = 'entity_needed',
    message = 'others need the entity';
end
$$;

create trigger entity_needed before delete on universe.entity
  for each row execute function universe.keep_needed_entity();
create trigger entity_never_emptied before truncate on universe.entity
  for each statement execute function universe.keep_needed_entity();

call tenancy.protect_table('universe.entity', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.track_changes('universe.entity', 'entity');

-- Text, not ltree: text is compared by leakproof functions, which PostgreSQL may run before the policy of the tenant. The
-- operators of ltree are not leakproof, hence under row security no index on ltree is ever used for them.
create table universe.entity_path (
  tenant_id uuid not null,
  entity_id uuid not null,
  path text collate "C" not null,
  depth integer not null generated always as (char_length(path) / 8) stored,
  constraint entity_path_pk primary key (tenant_id, entity_id),
  constraint entity_path_unique unique (tenant_id, path),
  constraint entity_path_form check (
    char_length(path) between 8 and 96 and char_length(path) % 8 = 0
    and translate(path, '0123456789abcdef', '') = ''
  )
);
comment on table universe.entity_path is 'Where an entity stands. Written by the triggers of universe.entity alone.';
comment on column universe.entity_path.path is 'The labels of the numbers from the root down to the entity.';
-- Serve the levels of a tree, each in the order of the paths.
create index entity_path_by_depth on universe.entity_path (tenant_id, depth, path);

-- INVARIANT: a path belongs to an entity. Paths that the triggers of universe.entity write always do.
create function universe.guard_entity_path() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  perform
  from new_path placed
  where not exists (
    select from universe.entity entity where entity.tenant_id = placed.tenant_id and entity.id = placed.entity_id
  )
  limit 1;
  if found then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'universe', table = 'entity_path', constraint = 'entity_path_of_entity',
      message = 'the path belongs to no entity';
  end if;
  return null;
end
$$;

create trigger entity_path_of_entity_when_made after insert on universe.entity_path
  referencing new table as new_path
  for each statement when (pg_trigger_depth() = 0) execute function universe.guard_entity_path();
create trigger entity_path_of_entity_when_changed after update on universe.entity_path
  referencing new table as new_path
  for each statement when (pg_trigger_depth() = 0) execute function universe.guard_entity_path();

call tenancy.protect_table('universe.entity_path', 'postern_universe', array['select', 'insert', 'update']);

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

call tenancy.protect_table('universe.hierarchy', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.track_changes('universe.hierarchy', 'hierarchy');

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
create trigger hierarchy_version_only_grows before update or delete on universe.hierarchy_version
  for each row execute function tenancy.refuse_change();
create trigger hierarchy_version_never_emptied before truncate on universe.hierarchy_version
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('universe.hierarchy_version', 'postern_universe', array['select', 'insert']);

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
create index node_by_depth on universe.node (tenant_id, hierarchy_id, depth, path);
-- Serve the difference of two versions, page by page.
create index node_by_change on universe.node (tenant_id, hierarchy_id, since_version, id);
create index node_by_name on universe.node (tenant_id, hierarchy_id, name, id);

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

create function universe.keep_needed_node() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.node_entity link where link.tenant_id = old.tenant_id and link.node_id = old.id) then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'node', constraint = 'node_needed',
    message = 'others need the node';
end
$$;

create trigger node_needed before delete on universe.node
  for each row execute function universe.keep_needed_node();
create trigger node_never_emptied before truncate on universe.node
  for each statement execute function universe.keep_needed_node();

call tenancy.protect_table('universe.node', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.track_changes('universe.node', 'hierarchy_node');

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
create index node_history_by_depth on universe.node_history (tenant_id, hierarchy_id, depth, path);
create index node_history_by_change on universe.node_history (tenant_id, hierarchy_id, since_version, node_id);
create index node_history_by_name on universe.node_history (tenant_id, hierarchy_id, name, node_id);

create trigger node_history_only_grows before update or delete on universe.node_history
  for each row execute function tenancy.refuse_change();
create trigger node_history_never_emptied before truncate on universe.node_history
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('universe.node_history', 'postern_universe', array['select', 'insert']);

create table universe.node_entity (
  tenant_id uuid not null,
  node_id uuid not null,
  entity_id uuid not null,
  constraint node_entity_pk primary key (tenant_id, node_id, entity_id)
);
comment on table universe.node_entity is 'The links of universe.node.entity_ids as rows. Written by its triggers alone.';
create index node_entity_by_entity on universe.node_entity (tenant_id, entity_id);

-- INVARIANT: a link joins a node and an entity of its tenant. Sequential scans are off, because a connection may keep a plan that
-- it made while both tables were small.
create function universe.guard_node_entity() returns trigger
  language plpgsql
  set search_path = ''
  set enable_seqscan = off
as $$
begin
  perform
  from new_link link
  where (select 1 from universe.node n where n.tenant_id = link.tenant_id and n.id = link.node_id) is null
    or (select 1 from universe.entity e where e.tenant_id = link.tenant_id and e.id = link.entity_id) is null
  limit 1;
  if found then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'universe', table = 'node_entity', constraint = 'node_entity_of_both',
      message = 'a link is that of a node and an entity';
  end if;
  return null;
end
$$;

create trigger node_entity_of_both_when_made after insert on universe.node_entity
  referencing new table as new_link
  for each statement execute function universe.guard_node_entity();
create trigger node_entity_of_both_when_changed after update on universe.node_entity
  referencing new table as new_link
  for each statement execute function universe.guard_node_entity();

call tenancy.protect_table('universe.node_entity', 'postern_universe', array['select', 'insert', 'delete']);

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

call tenancy.protect_table('universe.staged_node', 'postern_universe', array['select', 'insert', 'delete']);

create table universe.test_procedure_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint test_procedure_counter_pk primary key (tenant_id),
  constraint test_procedure_counter_not_negative check (last_number >= 0)
);
comment on table universe.test_procedure_counter is 'The last number given out in TP-<number>, one row a tenant.';

call tenancy.protect_table('universe.test_procedure_counter', 'postern_universe', array['select', 'insert', 'update']);

create table universe.test_procedure (
  tenant_id uuid not null,
  id uuid not null,
  number integer not null,
  reference text not null generated always as (
    'TP-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
  external_id text not null,
  title text not null,
  control_ref text,
  objective text,
  procedure_text text,
  method text,
  test_type text,
  entity_ids uuid[] not null default '{}',
  engagement_ref text,
  period_start_on date,
  period_end_on date,
  population_size integer,
  sample_size integer,
  tester jsonb,
  reviewer jsonb,
  due_on date,
  status text not null,
  conclusion text,
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint test_procedure_pk primary key (tenant_id, id),
  constraint test_procedure_number_unique unique (tenant_id, number),
  constraint test_procedure_reference_unique unique (tenant_id, reference),
  constraint test_procedure_external_id_unique unique (tenant_id, external_id),
  constraint test_procedure_number_positive check (number > 0),
  constraint test_procedure_external_id_length check (char_length(external_id) between 1 and 255),
  constraint test_procedure_title_length check (char_length(title) between 1 and 255),
  constraint test_procedure_control_ref_length check (char_length(control_ref) between 1 and 255),
  constraint test_procedure_objective_length check (char_length(objective) <= 20000),
  constraint test_procedure_text_length check (char_length(procedure_text) <= 20000),
  constraint test_procedure_method_known check (method in ('examine', 'interview', 'test')),
  constraint test_procedure_test_type_known check (test_type in ('design', 'operating_effectiveness')),
  constraint test_procedure_entity_ids_few check (cardinality(entity_ids) <= 50),
  constraint test_procedure_engagement_ref_length check (char_length(engagement_ref) between 1 and 255),
  constraint test_procedure_period_start_range check (period_start_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_period_end_range check (period_end_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_period_in_order check (period_start_on <= period_end_on),
  constraint test_procedure_population_not_negative check (population_size >= 0),
  constraint test_procedure_sample_in_population check (sample_size >= 0 and sample_size <= population_size),
  constraint test_procedure_tester_is_object check (jsonb_typeof(tester) = 'object'),
  constraint test_procedure_reviewer_is_object check (jsonb_typeof(reviewer) = 'object'),
  constraint test_procedure_two_people check (
    tester <> reviewer
    and tester ->> 'person_id' is distinct from coalesce(reviewer ->> 'person_id', '')
    and lower(tester ->> 'email') is distinct from coalesce(lower(reviewer ->> 'email'), '')
  ),
  constraint test_procedure_due_on_range check (due_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_status_known check (status in ('not_started', 'in_progress', 'in_review', 'completed')),
  constraint test_procedure_conclusion_known check (
    conclusion in ('effective', 'ineffective', 'no_population', 'not_concluded')
  ),
  constraint test_procedure_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint test_procedure_created_by_type_known check (
    created_by_type in ('api_key', 'user', 'operator', 'connector')
  ),
  constraint test_procedure_version_positive check (version > 0)
);
comment on table universe.test_procedure is 'What an auditor tests, as its source describes it. Never deleted: evidence points at it.';
create index test_procedure_by_change on universe.test_procedure (tenant_id, updated_at, number);
create index test_procedure_by_due on universe.test_procedure (tenant_id, coalesce(due_on, date 'infinity'), number);
create index test_procedure_by_title on universe.test_procedure (tenant_id, title, number);

-- INVARIANT: as for entities. The status goes forward, possibly over several steps, or is reopened.
create function universe.guard_test_procedure() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if (new.tenant_id, new.id, new.number, new.external_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.number, old.external_id, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_identity_fixed',
      message = 'the identity and the origin of a test procedure never change';
  end if;
  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_version_counts',
      message = 'each change of a test procedure raises its version by one';
  end if;
  if new.status = 'not_started' and old.status <> 'not_started' or new.status = 'in_review' and old.status = 'completed' then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_status_transition',
      message = 'the status cannot move in this way';
  end if;
  return new;
end
$$;

create trigger test_procedure_guard before update on universe.test_procedure
  for each row execute function universe.guard_test_procedure();

create function universe.link_test_procedures() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    delete from universe.test_procedure_entity link
    using new_procedure after
    where link.tenant_id = after.tenant_id and link.test_procedure_id = after.id
      and link.entity_id <> all (after.entity_ids);
  end if;
  insert into universe.test_procedure_entity (tenant_id, test_procedure_id, entity_id)
  select after.tenant_id, after.id, linked.entity_id
  from new_procedure after
  cross join unnest(after.entity_ids) as linked (entity_id)
  on conflict do nothing;
  return null;
end
$$;

create trigger test_procedure_links_after_insert after insert on universe.test_procedure
  referencing new table as new_procedure
  for each statement execute function universe.link_test_procedures();
create trigger test_procedure_links_after_update after update on universe.test_procedure
  referencing new table as new_procedure
  for each statement execute function universe.link_test_procedures();

call tenancy.protect_table('universe.test_procedure', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.track_changes('universe.test_procedure', 'test_procedure');

create table universe.test_procedure_entity (
  tenant_id uuid not null,
  test_procedure_id uuid not null,
  entity_id uuid not null,
  constraint test_procedure_entity_pk primary key (tenant_id, test_procedure_id, entity_id),
  constraint test_procedure_entity_procedure_fk foreign key (tenant_id, test_procedure_id)
    references universe.test_procedure (tenant_id, id),
  constraint test_procedure_entity_entity_fk foreign key (tenant_id, entity_id)
    references universe.entity (tenant_id, id)
);
comment on table universe.test_procedure_entity is
  'The links of universe.test_procedure.entity_ids as rows. Written by its triggers alone.';
create index test_procedure_entity_by_entity on universe.test_procedure_entity (tenant_id, entity_id);

call tenancy.protect_table('universe.test_procedure_entity', 'postern_universe', array['select', 'insert', 'delete']);

create table universe.person (
  tenant_id uuid not null,
  id uuid not null,
  external_id text not null,
  name text not null,
  email text,
  title text,
  active boolean not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint person_pk primary key (tenant_id, id),
  constraint person_external_id_unique unique (tenant_id, external_id),
  -- Asked at the end of a statement: one push may hand an address from one person to another.
  constraint person_email_unique unique (tenant_id, email) deferrable initially immediate,
  constraint person_external_id_length check (char_length(external_id) between 1 and 255),
  constraint person_name_length check (char_length(name) between 1 and 255),
  constraint person_email_form check (email = lower(email) and char_length(email) between 3 and 254),
  constraint person_title_length check (char_length(title) between 1 and 255),
  constraint person_version_positive check (version > 0)
);
comment on table universe.person is 'Someone whom a source knows. Never deleted: who has left is not active.';
create index person_by_name on universe.person (tenant_id, name, id);
create index person_by_change on universe.person (tenant_id, updated_at, id);

create function universe.guard_person() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if (new.tenant_id, new.id, new.external_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.external_id, old.created_at)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'person', constraint = 'person_identity_fixed',
      message = 'the identity of a person never changes';
  end if;
  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'person', constraint = 'person_version_counts',
      message = 'each change of a person raises the version by one';
  end if;
  return new;
end
$$;

create trigger person_guard before update on universe.person
  for each row execute function universe.guard_person();

call tenancy.protect_table('universe.person', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.track_changes('universe.person', 'person');

-- When a source was last read to its end. It is stored once per connector, because most entities are present in every run.
create table universe.source_connector (
  tenant_id uuid not null,
  connector_id text not null,
  telling integer not null,
  retired_at timestamptz(3),
  seen_at timestamptz(3),
  seen_run_id uuid,
  constraint source_connector_pk primary key (tenant_id, connector_id),
  constraint source_connector_id_form check (connector_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
  constraint source_connector_telling_positive check (telling > 0),
  constraint source_connector_seen_whole check ((seen_at is null) = (seen_run_id is null))
);
comment on table universe.source_connector is
  'Connectors that bring entities. What an entity was made by that is not among them is no source.';
comment on column universe.source_connector.telling is
  'The number of the last telling of the connector that was taken in: one with a lower number comes too late.';
comment on column universe.source_connector.retired_at is 'Since when it brings nothing, and is no source of anything.';
comment on column universe.source_connector.seen_at is
  'When its source was last read to its end, hence when it last had each entity that is not missing.';

call tenancy.protect_table('universe.source_connector', 'postern_universe', array['select', 'insert', 'update']);

-- INVARIANT: the entities of a tenant form trees, at most 12 deep, and entity_path says where each stands. Only what has
-- moved and what hangs below it is walked. It begins at those whose place above is settled: at roots, and below entities
-- above which nothing has moved. What is not reached from there hangs in a circle.
create function universe.place_entities(tenant uuid, moved uuid[]) returns void
  language plpgsql
  set search_path = ''
as $$
declare
  too_deep boolean;
  unreached boolean;
begin
  -- The tenant's lock: two changes that are sound alone cannot close a circle together. What follows is a later
  -- statement, and sees what the holder of the lock before has committed.
  perform from universe.reference_counter counter where counter.tenant_id = tenant for update;

  with recursive moved_entity as materialized (
    select entity.id, entity.parent_id, universe.path_label(entity.number) as label
    from unnest(moved) as one (id)
    join universe.entity entity on entity.tenant_id = tenant and entity.id = one.id
  ),
  placed as (
    select top.id, coalesce(above.path, '') || top.label as path, coalesce(above.depth, 0) + 1 as depth
    from moved_entity top
    left join universe.entity_path above on above.tenant_id = tenant and above.entity_id = top.parent_id
    where top.parent_id is null
      or above.path is not null and not exists (
        select
        from generate_series(1, above.depth) as step (at)
        where substr(above.path, step.at * 8 - 7, 8) in (select other.label from moved_entity other)
      )
    union all
    select child.id, placed.path || universe.path_label(child.number), placed.depth + 1
    from placed
    join universe.entity child on child.tenant_id = tenant and child.parent_id = placed.id
    where placed.depth <= 12
  ),
  written as (
    insert into universe.entity_path as known (tenant_id, entity_id, path)
    select tenant, placed.id, placed.path
    from placed
    where placed.depth <= 12
    on conflict (tenant_id, entity_id) do update
    set path = excluded.path
    where known.path <> excluded.path
  )
  select
    coalesce(max(placed.depth), 0) > 12,
    count(*) filter (where placed.id = any (moved)) < cardinality(moved)
  into too_deep, unreached
  from placed;

  if too_deep then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_depth',
      message = 'the tree of entities is at most 12 deep';
  end if;
  if unreached then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_acyclic',
      message = 'no entity is above itself';
  end if;
end
$$;
grant execute on function universe.place_entities(uuid, uuid[]) to postern_universe;
