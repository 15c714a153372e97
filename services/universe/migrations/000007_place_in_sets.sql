-- The same trees, whose places are found by sets: among thousands of rows none is looked for by going through all.

-- INVARIANT: as before. Of rows that were just made, nothing that was stored before hangs below one, and nothing above one that
-- was stored before has moved: they are walked among themselves.
create function universe.place_made_entities(tenant uuid, made uuid[]) returns void
  language plpgsql
  set search_path = ''
as $$
declare
  too_deep boolean;
  unreached boolean;
begin
  -- The tenant's lock, as in universe.place_entities.
  perform from universe.reference_counter counter where counter.tenant_id = tenant for update;

  with recursive made_entity as materialized (
    select entity.id, entity.parent_id, universe.path_label(entity.number) as label
    from unnest(made) as one (id)
    join universe.entity entity on entity.tenant_id = tenant and entity.id = one.id
  ),
  placed as (
    select top.id, coalesce(above.path, '') || top.label as path, coalesce(above.depth, 0) + 1 as depth
    from made_entity top
    left join universe.entity_path above on above.tenant_id = tenant and above.entity_id = top.parent_id
    where top.parent_id is null or above.path is not null
    union all
    select child.id, placed.path || child.label, placed.depth + 1
    from placed
    join made_entity child on child.parent_id = placed.id
    where placed.depth <= 12
  ),
  written as (
    insert into universe.entity_path (tenant_id, entity_id, path)
    select tenant, placed.id, placed.path
    from placed
    where placed.depth <= 12
  )
  select coalesce(max(placed.depth), 0) > 12, count(*) < cardinality(made)
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
      perform universe.place_made_entities(moved.tenant_id, moved.ids);
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

grant execute on function universe.place_made_entities(uuid, uuid[]) to postern_universe;
