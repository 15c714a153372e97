import type { Hierarchy, HierarchyNode, LookedUpNode } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'
import { dayOrNull, statement } from '../list/store.ts'
import type { AsOf, NodeAddress } from './rules.ts'

/** A hierarchy, and the version that a reader has asked for. */
export interface FoundHierarchy {
  readonly hierarchy: Hierarchy
  /** The version asked for; 0 where there was nothing yet. May be above the hierarchy's own: there is none such. */
  readonly wanted: number
}

/** Lists hierarchies by key, those after `after`. */
export async function listHierarchies(tx: Tx, after: string | undefined, limit: number): Promise<Hierarchy[]> {
  const rows = await tx.query<HierarchyRow>(listPage([after ?? '', limit]))
  return rows.map(toHierarchy)
}

/** How many hierarchies the tenant has. */
export async function countHierarchies(tx: Tx): Promise<number> {
  const rows = await tx.query<{ total: number }>(countAll([]))
  return rows[0]?.total ?? 0
}

/** The hierarchy with a key or an id, or undefined where the tenant has none. */
export async function findHierarchy(tx: Tx, key: string, asOf?: AsOf): Promise<FoundHierarchy | undefined> {
  const [version, day] = asOfValues(asOf)
  const [row] = await tx.query<HierarchyRow & { wanted: number }>(findByAddress([key, version, day]))
  if (row === undefined) return undefined
  const { wanted, ...rest } = row
  return { hierarchy: toHierarchy(rest), wanted }
}

/** Which nodes a list holds; undefined does not narrow. */
export interface NodeFilter {
  /** Of the hierarchy, or its id. */
  readonly key: string
  readonly asOf: AsOf | undefined
  readonly top: NodeAddress | undefined
  /** Levels, counted from the top, or from the roots. */
  readonly levels: number | undefined
  readonly status: readonly HierarchyNode['status'][] | undefined
  readonly search: string | undefined
}

/** Where a page of nodes begins: behind the node with this path. */
export const nodeKeySchema = z.string().regex(/^([0-9a-f]{8}){1,32}$/)

export interface ListedNode {
  readonly node: HierarchyNode
  readonly key: string
}

/** Lists nodes, parents before their children. */
export async function listNodes(
  tx: Tx,
  filter: NodeFilter,
  after: string | undefined,
  limit: number,
): Promise<ListedNode[]> {
  const list = filter.asOf === undefined ? nodesNow : nodesThen
  const rows = await tx.query<HierarchyNode & { path: string }>(list([...nodeValues(filter), after ?? '', limit]))
  return rows.map(({ path, ...node }) => ({ node, key: path }))
}

/** The node with an id and the key of its hierarchy, or undefined where the tenant has none. */
export async function findNode(tx: Tx, id: string): Promise<LookedUpNode | undefined> {
  const [row] = await tx.query<LookedUpNode & { path: string }>(findNodeById([id]))
  if (row === undefined) return undefined
  const { path: _path, ...node } = row
  return node
}

/** How many nodes the filter leaves. */
export async function countNodes(tx: Tx, filter: NodeFilter): Promise<number> {
  const count = filter.asOf === undefined ? countNow : countThen
  const rows = await tx.query<{ total: number }>(count(nodeValues(filter)))
  return rows[0]?.total ?? 0
}

/** Where a page of differences begins: behind the node with this number. */
export const changeKeySchema = z.int().min(1).max(2_147_483_647)

export interface ListedChange {
  readonly key: number
  readonly before: HierarchyNode | null
  readonly after: HierarchyNode
}

/**
 * Nodes that were written between two versions, by number, with what they were in each: whether they read differently is
 * for the caller to see. `to` undefined: the version of now.
 */
export async function listWrittenBetween(
  tx: Tx,
  { key, from, to }: { readonly key: string; readonly from: number; readonly to: number | undefined },
  after: number | undefined,
  limit: number,
): Promise<ListedChange[]> {
  return await tx.query<ListedChange>(writtenBetween([key, from, to ?? null, after ?? 0, limit]))
}

interface HierarchyRow extends Omit<Hierarchy, 'created_by' | 'created_at' | 'updated_at'> {
  readonly created_by_type: Hierarchy['created_by']['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly updated_at: Date
}

function toHierarchy(row: HierarchyRow): Hierarchy {
  const { created_by_type: type, created_by_id: id, created_by_label: label, created_at, updated_at, ...same } = row
  return {
    ...same,
    created_by: { type, id, label },
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  }
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

// Row level security narrows every statement to the tenant of the assertion: none of them names one.
const hierarchyColumns = `
  h.id, h.key, h.name, h.kind, h.is_primary, h.version, h.node_count, h.created_by_type, h.created_by_id,
  h.created_by_label, h.created_at, h.updated_at`

/** The version that two parameters ask for: a number, or the end of a day. Without them the version of now. */
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

// hierarchy_key_unique
const listPage = statement(
  'universe_list_hierarchies',
  `select ${hierarchyColumns} from universe.hierarchy h where h.key > $1::text order by h.key limit $2`,
)

const countAll = statement('universe_count_hierarchies', 'select count(*)::integer as total from universe.hierarchy')

/**
 * The one hierarchy that the first parameter addresses: hierarchy_pk and hierarchy_key_unique. Nothing keeps a key from
 * looking like an id; ids go first, so that one of the change feed leads to no other hierarchy than its own.
 */
const fromAddressed = `
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

const stateColumns = `
  n.parent_id, n.name, n.level_name, n.depth, n.head, n.status, n.valid_from, n.valid_to, n.entity_ids,
  n.since_version`
const nodeColumns = `n.id, n.node_key, ${stateColumns}, n.path`

// node_pk, hierarchy_pk
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

// A subtree is a range of node_path_unique: all paths that begin with the path of its top. `g` is behind every digit.
const hierarchyId = `(select h.id ${fromAddressed})`
const topNow = `(
  select top.path
  from universe.node top
  where top.hierarchy_id = ${hierarchyId} and (top.id = $2::uuid or top.node_key = $3::text))`
const fromTop = (top: string, prefix: string): string => `
  (($2::uuid is null and $3::text is null) or ${prefix}.path >= ${top} and ${prefix}.path < ${top} || 'g')
  and (
    $4::integer is null
    or ${prefix}.depth <= $4::integer + coalesce(char_length(${top}) / 8 - 1, 0)
  )`

const now = `universe.node n where n.hierarchy_id = ${hierarchyId} and ${wantedNode(fromTop(topNow, 'n'), 'n', 'n')}`

// node_path_unique, from behind the key to the end of the page.
const nodesNow = statement(
  'universe_list_nodes',
  `select ${nodeColumns} from ${now} and n.path > $7::text order by n.path limit $8`,
)

const countNow = statement('universe_count_nodes', `select count(*)::integer as total from ${now}`)

// A node as it was in a version is in universe.node when it has stayed so, and in the history when it has not; both are
// read in the order of their paths: node_path_unique, node_history_by_path.
const versionThen = `(select ${versionAsked('$7', '$8')} ${fromAddressed})`
const topThen = `(
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
const fromNode = `
  from universe.node n
  where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen} and ${wantedNode(fromTop(topThen, 'n'), 'n', 'n')}`
const fromHistory = `
  from universe.node_history n
  join universe.node self on self.tenant_id = n.tenant_id and self.id = n.node_id
  where n.hierarchy_id = ${hierarchyId} and n.since_version <= ${versionThen} and n.until_version > ${versionThen}
    and ${wantedNode(fromTop(topThen, 'n'), 'n', 'self')}`

// Each of the two is read to the end of the page and no further.
const nodesThen = statement(
  'universe_list_nodes_then',
  `select ${nodeColumns}
  from (
    (select ${nodeColumns} ${fromNode} and n.path > $9::text order by n.path limit $10)
    union all
    (
      select n.node_id, self.node_key, ${stateColumns}, n.path
      ${fromHistory} and n.path > $9::text
      order by n.path
      limit $10
    )
  ) n
  order by n.path
  limit $10`,
)

const countThen = statement(
  'universe_count_nodes_then',
  `select (select count(*) ${fromNode})::integer + (select count(*) ${fromHistory})::integer as total`,
)

/** A node of one version as JSON, as the API shows it; null where there was none. */
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

// What was written in between: node_by_since_version and node_history_by_since_version.
const writtenBetween = statement(
  'universe_nodes_written_between',
  `with span as materialized (
    select h.id, $2::integer as from_version, coalesce($3::integer, h.version) as to_version
    ${fromAddressed}
  ),
  written as (
    select n.id
    from span
    join universe.node n
      on n.hierarchy_id = span.id and n.since_version > span.from_version and n.since_version <= span.to_version
    union
    select n.node_id
    from span
    join universe.node_history n
      on n.hierarchy_id = span.id and n.since_version > span.from_version and n.since_version <= span.to_version
  )
  select self.number as key, ${nodeAt('span.from_version')} as before, ${nodeAt('span.to_version')} as after
  from written
  join universe.node self on self.id = written.id
  cross join span
  where self.number > $4::integer
  order by self.number
  limit $5`,
)
