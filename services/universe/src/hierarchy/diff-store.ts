import { type HierarchyNode, uuidSchema } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'
import { z } from 'zod'
import { fromAddressed, hierarchyId, stateColumns } from './store.ts'

/** Where a page starts: after this node among those that the version changed. */
export const changeKeySchema = z.strictObject({ version: z.int().min(1).max(2_147_483_647), id: uuidSchema })
export type ChangeKey = z.infer<typeof changeKeySchema>

export interface ListedChange {
  readonly key: ChangeKey
  readonly before: HierarchyNode | null
  readonly after: HierarchyNode
}

/**
 * Lists nodes that were written between two versions, with their contents in both, which may be equal. Without `to`:
 * the current version.
 */
export async function listWrittenBetween(
  tx: Tx,
  { key, from, to }: { readonly key: string; readonly from: number; readonly to: number | undefined },
  after: ChangeKey | undefined,
  limit: number,
): Promise<ListedChange[]> {
  const edge = after ?? { version: 0, id: '00000000-0000-0000-0000-000000000000' }
  const rows = await tx.query<Omit<ListedChange, 'key'> & ChangeKey & Record<string, unknown>>(
    writtenBetween([key, from, to ?? null, edge.version, edge.id, limit]),
  )
  return rows.map(({ version, id, before, after: then }) => ({ key: { version, id }, before, after: then }))
}

/** Null if the node did not exist. */
const nodeAt = (version: string): string => `(
  select jsonb_build_object(
    'id', self.id, 'node_key', self.node_key, 'parent_id', n.parent_id, 'name', n.name, 'level_name', n.level_name,
    'depth', n.depth, 'head', n.head, 'status', n.status, 'valid_from', n.valid_from, 'valid_to', n.valid_to,
    'entity_ids', n.entity_ids, 'since_version', n.since_version)
  from (
    select ${stateColumns} from universe.node n
    where n.tenant_id = self.tenant_id and n.id = self.id and n.since_version <= ${version}
    union all
    select ${stateColumns} from universe.node_history n
    where n.tenant_id = self.tenant_id and n.node_id = self.id
      and n.since_version <= ${version} and n.until_version > ${version}
  ) n)`

// The later version of a node is in universe.node or in the history, and says when the node was last written. Both tables are read
// in order.
const toVersion = `(select coalesce($3::integer, h.version) ${fromAddressed})`
const writtenPageSql = (id: string): string => `
  n.hierarchy_id = ${hierarchyId} and n.since_version > $2::integer and n.since_version <= ${toVersion}
    and (n.since_version, ${id}) > ($4::integer, $5::uuid)
  order by n.since_version, ${id}
  limit $6`
const writtenBetween = statement(
  'universe_nodes_written_between',
  `select
    written.since_version as version, written.id, ${nodeAt('$2::integer')} as before, ${nodeAt(toVersion)} as after
  from (
    (select n.since_version, n.id from universe.node n where ${writtenPageSql('n.id')})
    union all
    (
      select n.since_version, n.node_id from universe.node_history n
      where n.until_version > ${toVersion} and ${writtenPageSql('n.node_id')}
    )
  ) as written
  join universe.node self on self.id = written.id
  order by written.since_version, written.id
  limit $6`,
)
