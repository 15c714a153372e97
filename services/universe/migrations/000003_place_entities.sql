-- Where each entity stands in its tree, kept so that subtrees and ancestors are read from an index; and when it is due.

-- The number of an entity or a node as it stands in a path: fixed in length, so that paths sort as the tree is walked.
create function universe.path_label(number integer) returns text
  language sql
  immutable strict parallel safe
  set search_path = ''
  return lpad(to_hex(number), 8, '0');

-- Text, not ltree: text is compared by leakproof functions, which PostgreSQL may run before the policy of the tenant. The
-- operators of ltree are not leakproof, hence under row security no index on ltree is ever used for them.
create table universe.entity_path (
  tenant_id uuid not null,
  entity_id uuid not null,
  path text collate "C" not null,
  depth integer not null generated always as (char_length(path) / 8) stored,
  constraint entity_path_pk primary key (tenant_id, entity_id),
  constraint entity_path_unique unique (tenant_id, path),
  constraint entity_path_form check (path ~ '^([0-9a-f]{8}){1,12}$'),
  constraint entity_path_entity_fk foreign key (tenant_id, entity_id) references universe.entity (tenant_id, id)
);
comment on table universe.entity_path is 'Where an entity stands. Written by the triggers of universe.entity alone.';
comment on column universe.entity_path.path is 'The labels of the numbers from the root down to the entity.';

-- For what is stored already. The owner sees it only while row security is not forced.
alter table universe.entity no force row level security;
with recursive placed as (
  select root.tenant_id, root.id, universe.path_label(root.number) as path
  from universe.entity root
  where root.parent_id is null
  union all
  select child.tenant_id, child.id, placed.path || universe.path_label(child.number)
  from placed
  join universe.entity child on child.tenant_id = placed.tenant_id and child.parent_id = placed.id
)
insert into universe.entity_path (tenant_id, entity_id, path)
select placed.tenant_id, placed.id, placed.path
from placed;
alter table universe.entity force row level security;

alter table universe.entity
  add column next_audit_due_on date generated always as (
    least(
      case when last_audit_on is not null and audit_frequency_months is not null then
        least((last_audit_on + make_interval(months => audit_frequency_months))::date, date '9999-12-31')
      end,
      regulatory_next_due_on
    )
  ) stored;
comment on column universe.entity.next_audit_due_on is
  'The last audit plus the frequency, or the regulator''s date where that is earlier.';

-- One index a sort; ties by number.
create index entity_by_name on universe.entity (tenant_id, name, number);
create index entity_by_change on universe.entity (tenant_id, updated_at, number);
drop index universe.entity_by_updated_at;
create index entity_by_next_audit_due
  on universe.entity (tenant_id, coalesce(next_audit_due_on, date 'infinity'), number);
-- The children of an entity, in the order of their numbers.
create index entity_by_parent_number on universe.entity (tenant_id, parent_id, number);
drop index universe.entity_by_parent;

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

create or replace function universe.guard_entity_tree() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  moved record;
begin
  if tg_op = 'INSERT' then
    for moved in
      select made.tenant_id, array_agg(made.id) as ids from new_entity made group by made.tenant_id
    loop
      perform universe.place_entities(moved.tenant_id, moved.ids);
    end loop;
  else
    for moved in
      select after.tenant_id, array_agg(after.id) as ids
      from new_entity after
      join old_entity before on before.tenant_id = after.tenant_id and before.id = after.id
      where after.parent_id is distinct from before.parent_id
      group by after.tenant_id
    loop
      perform universe.place_entities(moved.tenant_id, moved.ids);
    end loop;
  end if;
  return null;
end
$$;

-- Run by triggers and constraints, with the rights of who writes.
grant execute on function universe.path_label(integer) to postern_universe;
grant execute on function universe.place_entities(uuid, uuid[]) to postern_universe;

call tenancy.protect_table('universe.entity_path', 'postern_universe', array['select', 'insert', 'update']);
