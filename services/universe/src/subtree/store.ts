import type { ResourceAddress } from '@postern/contracts'
import type { EntityNamesAnswer } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'
import type { NodeAddress } from '../hierarchy/rules.ts'

/** Empty if the entity does not exist. */
export async function listEntityIdsBelow(tx: Tx, top: ResourceAddress, limit: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    below([
      top.by === 'id' ? top.id : null,
      top.by === 'reference' ? top.reference : null,
      top.by === 'external-id' ? top.externalId : null,
      limit,
    ]),
  )
  return rows.map(({ id }) => id)
}

export async function listEntityIdsInHierarchy(
  tx: Tx,
  key: string,
  top: NodeAddress | undefined,
  limit: number,
): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    inHierarchy([key, top?.by === 'id' ? top.id : null, top?.by === 'key' ? top.key : null, limit]),
  )
  return rows.map(({ id }) => id)
}

export async function listNames(tx: Tx, ids: readonly string[]): Promise<EntityNamesAnswer['entities']> {
  return await tx.query<EntityNamesAnswer['entities'][number]>(names([ids]))
}

const topPath = `
  select above.path
  from universe.entity top
  join universe.entity_path above on above.tenant_id = top.tenant_id and above.entity_id = top.id
  where top.id = $1::uuid or top.reference = $2::text or top.external_id = $3::text`

const below = statement(
  'universe_subtree_ids',
  `select place.entity_id as id
  from universe.entity_path place
  where place.path >= (${topPath}) and place.path < (${topPath}) || 'g'
  limit $4::integer`,
)

const topOfNodes = `
  select top.path
  from universe.node top
  where top.hierarchy_id = (select of.id from universe.hierarchy of where of.key = $1::text)
    and (top.id = $2::uuid or top.node_key = $3::text)`
const hasNoTop = '$2::uuid is null and $3::text is null'

const inHierarchy = statement(
  'universe_hierarchy_entity_ids',
  `select distinct link.entity_id as id
  from universe.hierarchy h
  join universe.node n on n.tenant_id = h.tenant_id and n.hierarchy_id = h.id
  join universe.node_entity link on link.tenant_id = n.tenant_id and link.node_id = n.id
  where h.key = $1::text
    and n.status = 'active'
    and n.path >= (select case when ${hasNoTop} then '' else (${topOfNodes}) end)
    and n.path < (select case when ${hasNoTop} then 'g' else (${topOfNodes}) || 'g' end)
  limit $4::integer`,
)

const names = statement(
  'universe_entity_names',
  'select e.id, e.name, e.reference, e.type, e.status from universe.entity e where e.id = any($1::uuid[])',
)
