-- To make an entity takes less: its label is computed where it is used, its place is looked for once a parent, and that parents are
-- there is held once a statement and no longer by foreign keys, which looked each up.
--
-- suits the running release: labels and paths are the same, and what is refused is what foreign keys have refused: a parent that is
-- nowhere, a path of no entity, and to take away what others need. The service writes none of them.

-- In the order in which readers take them, and before anything is held that a push waits for: neither waits for the other for ever.
lock table universe.reference_counter, universe.entity_path, universe.entity in access exclusive mode;

-- A function with settings of its own is called for each row; its body was read when it was made, hence needs no search_path.
create or replace function universe.path_label(number integer) returns text
  language sql
  immutable
  strict
  parallel safe
  return lpad(to_hex(number), 8, '0');

-- INVARIANT, as before: what was made hangs below what there is, at most 12 deep. An entity whose parent is nowhere is reached
-- from no root.
--
-- What was made is joined by hashing: PostgreSQL keeps the plan of the first statement of a connection, which may have made one row.
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

create or replace trigger entity_tree_after_insert after insert on universe.entity
  referencing new table as new_entity
  for each statement execute function universe.place_new_entities();
drop function universe.place_made_entities(uuid, uuid[]);

-- For what has moved alone.
create or replace function universe.guard_entity_tree() returns trigger
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

alter table universe.entity drop constraint entity_parent_fk;
alter table universe.entity_path drop constraint entity_path_entity_fk;

-- INVARIANT, as by the foreign keys: an entity that another hangs below, or that has a path, does not go away.
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

-- INVARIANT, as by the foreign key: a path is that of an entity. What the triggers of universe.entity write is so by itself.
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
