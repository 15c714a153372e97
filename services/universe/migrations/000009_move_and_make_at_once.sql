-- A push may move an entity up and make another below it in one statement, where the tree is as deep as it may be.

create or replace function universe.place_made_entities(tenant uuid, made uuid[]) returns void
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

  -- Where something above moves in the same statement, its path is that of before. It is placed anew, with all that hangs below
  -- it, by the trigger for what has moved: too deep is what is so by the parents as they are now.
  if too_deep then
    with recursive above as (
      select entity.parent_id, 1 as depth
      from unnest(made) as one (id)
      join universe.entity entity on entity.tenant_id = tenant and entity.id = one.id
      union
      select entity.parent_id, above.depth + 1
      from above
      join universe.entity entity on entity.tenant_id = tenant and entity.id = above.parent_id
      where above.depth <= 12
    )
    select max(above.depth) > 12 into too_deep from above;
    if not too_deep then
      return;
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
      message = 'no entity is above itself';
  end if;
end
$$;
