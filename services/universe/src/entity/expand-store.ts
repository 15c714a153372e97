import type { ExpandedEntity } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

type OfEntity<Part> = Part & { readonly entity_id: string }
type Ancestor = NonNullable<ExpandedEntity['ancestors']>[number]
type NodeOfEntity = NonNullable<ExpandedEntity['nodes']>[number]

/** Lists ancestors from the root down. */
export async function listAncestorsOf(tx: Tx, ids: readonly string[]): Promise<OfEntity<Ancestor>[]> {
  return await tx.query<OfEntity<Ancestor>>(ancestorsOf([ids]))
}

export async function listNodesOf(tx: Tx, ids: readonly string[], most: number): Promise<OfEntity<NodeOfEntity>[]> {
  return await tx.query<OfEntity<NodeOfEntity>>(nodesOf([ids, most]))
}

const ancestorsOf = statement(
  'universe_ancestors_of_entities',
  `select place.entity_id, above.id, above.reference, above.name
  from universe.entity_path place
  cross join lateral generate_series(1, place.depth - 1) as step (at)
  join universe.entity above
    on above.tenant_id = place.tenant_id
    and above.number = ('x' || substr(place.path, step.at * 8 - 7, 8))::bit(32)::integer
  where place.entity_id = any($1::uuid[])
  order by place.entity_id, step.at`,
)

const nodesOf = statement(
  'universe_nodes_of_entities',
  `select wanted.id as entity_id, place.hierarchy, place.id, place.node_key, place.name
  from unnest($1::uuid[]) with ordinality as wanted (id, at)
  cross join lateral (
    select h.key as hierarchy, n.id, n.node_key, n.name, n.path
    from universe.node_entity link
    join universe.node n on n.tenant_id = link.tenant_id and n.id = link.node_id
    join universe.hierarchy h on h.tenant_id = n.tenant_id and h.id = n.hierarchy_id
    where link.entity_id = wanted.id and n.status = 'active'
    order by h.key, n.path
    limit $2::integer
  ) as place
  order by wanted.at, place.hierarchy, place.path`,
)
