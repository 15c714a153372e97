import {
  type Hierarchy,
  type HierarchyNode,
  type LookedUpNode,
  maxNodeDepth,
  type nodeSorts,
  text,
} from '@postern/contracts'
import { type ResourceRow, type Statement, type Tx, statement, toResource } from '@postern/tenant-db'
import { z } from 'zod'
import { type ListKey, dayOrNull, getEdges } from '../list/store.ts'
import type { AsOf, NodeAddress } from './rules.ts'

export interface FoundHierarchy {
  readonly hierarchy: Hierarchy
  /** The requested version. 0: before the first. It may be above the current version, which exists nowhere. */
  readonly wanted: number
}

export async function listHierarchies(tx: Tx, after: string | undefined, limit: number): Promise<Hierarchy[]> {
  const rows = await tx.query<ResourceRow<Hierarchy>>(listPage([after ?? '', limit]))
  return rows.map(toResource)
}

export async function countHierarchies(tx: Tx): Promise<number> {
  const rows = await tx.query<{ total: number }>(countAll([]))
  return rows[0]?.total ?? 0
}

export async function findHierarchy(tx: Tx, key: string, asOf?: AsOf): Promise<FoundHierarchy | undefined> {
  const [version, day] = asOfValues(asOf)
  const [row] = await tx.query<ResourceRow<Hierarchy> & { wanted: number }>(findByAddress([key, version, day]))
  if (row === undefined) return undefined
  const { wanted, ...rest } = row
  return { hierarchy: toResource(rest), wanted }
}

export interface NodeFilter {
  readonly key: string
  readonly asOf: AsOf | undefined
  readonly top: NodeAddress | undefined
  /** Levels, counted from the top node or the roots. */
  readonly levels: number | undefined
  readonly status: readonly HierarchyNode['status'][] | undefined
  readonly search: string | undefined
}

export type NodeSort = (typeof nodeSorts)[number]

/** Where a page starts. In the order `tree`: after the node with this path, which is a text as in cursors of earlier releases. */
export type NodeKey = string | ListKey

export function nodeKeySchema(sort: NodeSort): z.ZodType<NodeKey> {
  return sort === 'tree' ? treeKeySchema : sortedKeySchema
}
const treeKeySchema = z.string().regex(/^([0-9a-f]{8}){1,32}$/)
const sortedKeySchema = z.strictObject({ value: text(0, 255), tie: z.uuid() })

export interface ListedNode {
  readonly node: HierarchyNode
  readonly key: NodeKey
}

/** Lists nodes in the order of `sort`, then of their ids. `tree`: parents before their children. */
export async function listNodes(
  tx: Tx,
  filter: NodeFilter,
  { sort, after, limit }: { readonly sort: NodeSort; readonly after: NodeKey | undefined; readonly limit: number },
): Promise<ListedNode[]> {
  const values = nodeValues(filter)
  const rows = await tx.query<HierarchyNode & { path: string }>(
    sort === 'tree'
      ? treeList(filter)([...values, after ?? '', limit])
      : sortedNodes(sort, filter.asOf !== undefined, [...values, ...edgeOf(sort, after), limit]),
  )
  return rows.map(({ path, ...node }) => ({ node, key: keyOf(sort, node, path) }))
}

function treeList({ asOf, levels }: NodeFilter): (values: readonly unknown[]) => Statement {
  if (levels === undefined) return asOf === undefined ? nodesNow : nodesThen
  return asOf === undefined ? levelsNow : levelsThen
}

function keyOf(sort: NodeSort, { id, name, node_key }: HierarchyNode, path: string): NodeKey {
  if (sort === 'tree') return path
  return { value: sort === 'name' || sort === '-name' ? name : node_key, tie: id }
}

function edgeOf(sort: NodeSort, after: NodeKey | undefined): readonly [string | number, string | number] {
  // Only the order of the tree has paths as keys.
  const edge = typeof after === 'object' ? after : getEdges('text', 'uuid')[sort.startsWith('-') ? 'last' : 'first']
  return [edge.value, edge.tie]
}

export async function findNode(tx: Tx, id: string): Promise<LookedUpNode | undefined> {
  const [row] = await tx.query<LookedUpNode & { path: string }>(findNodeById([id]))
  if (row === undefined) return undefined
  const { path: _path, ...node } = row
  return node
}

export async function countNodes(tx: Tx, filter: NodeFilter): Promise<number> {
  const count = filter.asOf === undefined ? countNow : countThen
  const rows = await tx.query<{ total: number }>(count(nodeValues(filter)))
  return rows[0]?.total ?? 0
}

function asOfValues(asOf: AsOf | undefined): readonly [number | null, string | null] {
  if (asOf === undefined) return [null, null]
  return 'day' in asOf ? [null, dayOrNull(asOf.day)] : [asOf.version, null]
}

function nodeValues({ key, asOf, top, levels, status, search }: NodeFilter): readonly unknown[] {
  return [
    key,
    top?.by === 'id' ? top.id : null,
    top?.by === 'key' ? top.key : null,
    levels ?? null,
    status ?? null,
    search ?? null,
    ...(asOf === undefined ? [] : asOfValues(asOf)),
  ]
}

const hierarchyColumns = `
  h.id, h.key, h.name, h.kind, h.is_primary, h.version, h.node_count, h.created_by_type, h.created_by_id,
  h.created_by_label, h.created_at, h.updated_at`

/** Returns SQL for a version: a number, the last one of a day, or else the current one. */
const versionAsked = (version: string, day: string): string => `
  case
    when ${version}::integer is not null then ${version}::integer
    when ${day}::date is not null then coalesce(
      (
        select max(v.version)
        from universe.hierarchy_version v
        where v.tenant_id = h.tenant_id and v.hierarchy_id = h.id
          and v.applied_at < (${day}::date::timestamp + interval '1 day') at time zone 'UTC'
      ), 0)
    else h.version
  end`

const listPage = statement(
  'universe_list_hierarchies',
  `select ${hierarchyColumns} from universe.hierarchy h where h.key > $1::text order by h.key limit $2`,
)

const countAll = statement('universe_count_hierarchies', 'select count(*)::integer as total from universe.hierarchy')

/** A key may look like an id, so ids come first. */
export const fromAddressed = `
  from universe.hierarchy h
  where h.key = $1::text
    or h.id = case
      when $1::text ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then $1::text::uuid
    end
  order by h.key = $1::text
  limit 1`

const findByAddress = statement(
  'universe_find_hierarchy',
  `select ${hierarchyColumns}, ${versionAsked('$2', '$3')} as wanted ${fromAddressed}`,
)

export const stateColumns = `
  n.parent_id, n.name, n.level_name, n.depth, n.head, n.status, n.valid_from, n.valid_to, n.entity_ids,
  n.since_version`
const nodeColumns = `n.id, n.node_key, ${stateColumns}, n.path`

const findNodeById = statement(
  'universe_find_node',
  `select ${nodeColumns}, h.key as hierarchy
  from universe.node n
  join universe.hierarchy h on h.tenant_id = n.tenant_id and h.id = n.hierarchy_id
  where n.id = $1::uuid`,
)

const wantedNode = (condition: string, prefix: string, identity: string): string => `
  ($5::text[] is null or ${prefix}.status = any($5::text[]))
  and (
    $6::text is null
    or strpos(lower(concat_ws(' ', ${identity}.node_key, ${prefix}.name, ${prefix}.level_name)), lower($6::text)) > 0
  )
  and ${condition}`

// A subtree is a range of paths. Without a top it is the range of all paths, so that a generic plan uses the index. `g` sorts after
// every hexadecimal digit.
export const hierarchyId = `(select h.id ${fromAddressed})`
const hasNoTop = '$2::uuid is null and $3::text is null'
const pathNow = `(
  select top.path
  from universe.node top
  where top.hierarchy_id = ${hierarchyId} and (top.id = $2::uuid or top.node_key = $3::text))`
const inRangeSql = (top: string): string => `
  n.path >= (select case when ${hasNoTop} then '' else ${top} end)
  and n.path < (select case when ${hasNoTop} then 'g' else ${top} || 'g' end)`

/** The same for other orders. Without a top node there is no range. */
const inRangeIfAny = (top: string): string => `
  (${hasNoTop} or n.path >= ${top} and n.path < ${top} || 'g')`

/** Returns SQL for the first `$4` levels, counted from the top node or the roots. */
const levelsFrom = (top: string): string => `(
  select generate_series(first.depth, least(first.depth + $4::integer - 1, ${maxNodeDepth})) as depth
  from (select case when ${hasNoTop} then 1 else char_length(${top}) / 8 end as depth) as first
) level`
const ofLevelsSql = (top: string): string => `
  ($4::integer is null or n.depth < (select case when ${hasNoTop} then 1 else char_length(${top}) / 8 end) + $4::integer)`

const now = `universe.node n where n.hierarchy_id = ${hierarchyId} and ${wantedNode(inRangeSql(pathNow), 'n', 'n')}`

const nodesNow = statement(
  'universe_list_nodes',
  `select ${nodeColumns} from ${now} and $4::integer is null and n.path > $7::text order by n.path limit $8`,
)

const levelsNow = statement(
  'universe_list_node_levels',
  `select ${nodeColumns}
  from ${levelsFrom(pathNow)}
  cross join lateral (
    select ${nodeColumns} from ${now} and n.depth = level.depth and n.path > $7::text order by n.path limit $8
  ) n
  order by n.path
  limit $8`,
)

const countNow = statement(
  'universe_count_nodes',
  `select count(*)::integer as total from ${now} and ${ofLevelsSql(pathNow)}`,
)

// A past node is in universe.node if it has not changed since, else in the history; both are read in the order of
// paths.
const versionThen = `(select ${versionAsked('$7', '$8')} ${fromAddressed})`
const pathThen = `(
  select place.path
  from (
    select n.id, n.path, n.node_key from universe.node n
    where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen}
    union all
    select n.node_id, n.path, self.node_key
    from universe.node_history n
    join universe.node self on self.tenant_id = n.tenant_id and self.id = n.node_id
    where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen} and n.until_version > ${versionThen}
  ) place
  where place.id = $2::uuid or place.node_key = $3::text)`
const fromNodeIn = (range: string): string => `
  from universe.node n
  where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen} and ${wantedNode(range, 'n', 'n')}`
const fromHistoryIn = (range: string): string => `
  from universe.node_history n
  join universe.node self on self.tenant_id = n.tenant_id and self.id = n.node_id
  where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen} and n.until_version > ${versionThen}
    and ${wantedNode(range, 'n', 'self')}`
const [fromNode, fromHistory] = [fromNodeIn(inRangeSql(pathThen)), fromHistoryIn(inRangeSql(pathThen))]

const pageThen = (condition: string): string => `
  (select ${nodeColumns} ${fromNode} and ${condition} and n.path > $9::text order by n.path limit $10)
  union all
  (
    select n.node_id, self.node_key, ${stateColumns}, n.path
    ${fromHistory} and ${condition} and n.path > $9::text
    order by n.path
    limit $10
  )`

const nodesThen = statement(
  'universe_list_nodes_then',
  `select ${nodeColumns} from (${pageThen('$4::integer is null')}) n order by n.path limit $10`,
)

// Served by node_by_depth and node_history_by_depth.
const levelsThen = statement(
  'universe_list_node_levels_then',
  `select ${nodeColumns}
  from ${levelsFrom(pathThen)}
  cross join lateral (${pageThen('n.depth = level.depth')}) n
  order by n.path
  limit $10`,
)

// Each index is read from the key to the end of the page.
const sortable = {
  name: { now: 'n.name', past: 'n.name', listed: 'n.name' },
  node_key: { now: 'n.node_key', past: 'self.node_key', listed: 'n.node_key' },
} as const

/** The last parameters are the key before the page, and its limit. */
function sortedNodes(sort: Exclude<NodeSort, 'tree'>, isPast: boolean, values: readonly unknown[]): Statement {
  const isDown = sort === '-name' || sort === '-node_key'
  const what = sort === 'name' || sort === '-name' ? 'name' : 'node_key'
  const { now: column, past, listed } = sortable[what]
  const [compare, direction] = isDown ? ['<', 'desc'] : ['>', 'asc']
  const first = isPast ? 9 : 7
  const end = (by: string, id: string): string => `
    and (${by}, ${id}) ${compare} ($${first}::text, $${first + 1}::uuid)
    order by ${by} ${direction}, ${id} ${direction}
    limit $${first + 2}`
  const name = `universe_list_nodes_${isPast ? 'then_' : ''}by_${what}_${direction}`
  if (!isPast) {
    const listedNow = `universe.node n where n.hierarchy_id = ${hierarchyId} and ${wantedNode(inRangeIfAny(pathNow), 'n', 'n')}`
    return {
      name,
      text: `select ${nodeColumns} from ${listedNow} and ${ofLevelsSql(pathNow)} ${end(column, 'n.id')}`,
      values,
    }
  }
  return {
    name,
    text: `select ${nodeColumns}
      from (
        (select ${nodeColumns} ${fromNodeIn(inRangeIfAny(pathThen))} and ${ofLevelsSql(pathThen)} ${end(column, 'n.id')})
        union all
        (
          select n.node_id, self.node_key, ${stateColumns}, n.path
          ${fromHistoryIn(inRangeIfAny(pathThen))} and ${ofLevelsSql(pathThen)} ${end(past, 'n.node_id')}
        )
      ) n
      order by ${listed} ${direction}, n.id ${direction}
      limit $${first + 2}`,
    values,
  }
}

const countThen = statement(
  'universe_count_nodes_then',
  `select (select count(*) ${fromNode} and ${ofLevelsSql(pathThen)})::integer
    + (select count(*) ${fromHistory} and ${ofLevelsSql(pathThen)})::integer as total`,
)
