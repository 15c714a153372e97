import type { Entity, ResourceAddress, entitySorts } from '@postern/contracts'
import type { OwnerFilter } from '@postern/contracts/internal'
import { type Statement, type Tx, addressValues, statement } from '@postern/tenant-db'
import { z } from 'zod'
import type { NodeAddress } from '../hierarchy/rules.ts'
import { type ListKey, dayOrNull, listStatement, listStatements, timeOrInfinity } from '../list/store.ts'
import { type EntityRow, entitySource, storedColumns, toEntity } from './row-store.ts'
import type { StoredEntity } from './rules.ts'

export type { Tx } from '@postern/tenant-db'

export type EntitySort = (typeof entitySorts)[number]

export interface EntityFilter {
  readonly type?: readonly Entity['type'][] | undefined
  readonly status?: readonly Entity['status'][] | undefined
  readonly parents?: 'none' | readonly ResourceAddress[] | undefined
  /** A subtree, down to `depth` levels below its top. */
  readonly within?:
    | { readonly top: ResourceAddress; readonly excludesTop: boolean; readonly depth: number | undefined }
    | undefined
  /** `isSmall` decides how the entities are found, and not which. */
  readonly hierarchy?:
    | { readonly key: string; readonly node: NodeAddress | undefined; readonly isSmall: boolean }
    | undefined
  readonly owner?: OwnerFilter | undefined
  readonly riskRating?: readonly string[] | undefined
  readonly nextAuditDueBefore?: string | undefined
  readonly externalId?: readonly string[] | undefined
  readonly connectorId?: readonly string[] | undefined
  readonly missing?: boolean | undefined
  readonly updatedSince?: string | undefined
  readonly search?: string | undefined
}

export interface ListedEntity {
  readonly entity: StoredEntity
  readonly key: ListKey
}

export interface EntityPage {
  readonly filter: EntityFilter
  readonly sort: EntitySort
  readonly after: ListKey | undefined
  readonly limit: number
}

export function entityKeySchema(sort: EntitySort): z.ZodType<ListKey> {
  return sort === 'tree' ? treeKeySchema : flat.keySchema(sort)
}

/** Lists entities in the order of `sort`, then of their numbers. `tree`: parents before their children. */
export async function listEntities(tx: Tx, { filter, sort, after, limit }: EntityPage): Promise<ListedEntity[]> {
  const values = filterValues(filter)
  const shape = filter.within === undefined ? flat : subtree
  const rows = await tx.query<EntityRow>(
    sort === 'tree'
      ? (filter.within?.depth === undefined ? treePage : levelsPage)([
          ...values,
          ...subtreeValues(filter),
          after?.value ?? '',
          limit,
        ])
      : shape.page(sort, shape === flat ? values : [...values, ...subtreeValues(filter)], after, limit),
  )
  return rows.map((row) => ({ entity: toEntity(row), key: keyOf(row, sort) }))
}

export async function countEntities(tx: Tx, filter: EntityFilter): Promise<number> {
  const values = filterValues(filter)
  const count = filter.within === undefined ? flat.count(values) : subtree.count([...values, ...subtreeValues(filter)])
  const rows = await tx.query<{ total: number }>(count)
  return rows[0]?.total ?? 0
}

export async function findEntity(tx: Tx, address: ResourceAddress): Promise<StoredEntity | undefined> {
  const rows = await tx.query<EntityRow>(findStatement(address))
  return rows[0] === undefined ? undefined : toEntity(rows[0])
}

export async function listAncestors(tx: Tx, address: ResourceAddress): Promise<StoredEntity[] | undefined> {
  const rows = await tx.query<EntityRow & { is_self: boolean }>(ancestors(addressValues(address)))
  if (rows.length === 0) return undefined
  return rows.filter((row) => !row.is_self).map(({ is_self: _self, ...row }) => toEntity(row))
}

function keyOf(row: EntityRow, sort: EntitySort): ListKey {
  const tie = row.number
  switch (sort) {
    case 'reference':
    case '-reference':
      return { value: tie, tie }
    case 'name':
    case '-name':
      return { value: row.name, tie }
    case 'updated_at':
    case '-updated_at':
      return { value: row.updated_at.toISOString(), tie }
    case 'next_audit_due':
    case '-next_audit_due':
      return { value: row.next_audit_due ?? 'infinity', tie }
    case 'tree':
      return { value: row.path ?? '', tie }
    default:
      return sort satisfies never
  }
}

const treeKeySchema = z.strictObject({
  value: z.string().regex(/^([0-9a-f]{8}){1,12}$/),
  tie: z.int().min(1).max(2_147_483_647),
})

/** One prepared statement serves every combination of filters. */
function filterValues(filter: EntityFilter): readonly unknown[] {
  const { hierarchy, owner, parents } = filter
  const above = parents === undefined || parents === 'none' ? [] : parents.map(addressValues)
  // The children of one parent are read from the index of parents in their order.
  const [only, ...more] = above
  const single = only === undefined || more.length > 0 ? [null, null, null] : only
  const several = [0, 1, 2].map((at) => (more.length === 0 ? null : above.flatMap((values) => values[at] ?? [])))
  const node = hierarchy?.node
  return [
    filter.type ?? null,
    filter.status ?? null,
    timeOrInfinity(filter.updatedSince),
    filter.externalId ?? null,
    parents === 'none',
    ...single,
    owner?.texts ?? null,
    owner?.identifiers ?? null,
    filter.riskRating ?? null,
    dayOrNull(filter.nextAuditDueBefore),
    filter.search ?? null,
    hierarchy?.key ?? null,
    node?.by === 'id' ? node.id : null,
    node?.by === 'key' ? node.key : null,
    filter.connectorId ?? null,
    ...several,
    filter.missing ?? null,
    hierarchy !== undefined && node === undefined && hierarchy.isSmall,
    owner?.names ?? null,
  ]
}

export async function hasFewLinks(tx: Tx, key: string): Promise<boolean> {
  const [row] = await tx.query<{ few: boolean }>(fewLinks([key]))
  return row?.few ?? true
}

function subtreeValues({ within }: EntityFilter): readonly unknown[] {
  if (within === undefined) return [null, null, null, false, null]
  return [...addressValues(within.top), within.excludesTop, within.depth ?? null]
}

const hasNoNode = '$15::uuid is null and $16::text is null'
const nodePath = `(
  select top.path
  from universe.node top
  where top.hierarchy_id = (select of.id from universe.hierarchy of where of.key = $14::text) and (top.id = $15::uuid or top.node_key = $16::text))`

const hierarchyId = '(select of.id from universe.hierarchy of where of.key = $14::text)'
// Checked for each entity in the order of the list, until the page is full.
const isOfHierarchy = `(
    select true
    from universe.node_entity link
    join universe.node n on n.tenant_id = link.tenant_id and n.id = link.node_id
    where link.tenant_id = e.tenant_id and link.entity_id = e.id and n.hierarchy_id = ${hierarchyId} and n.status = 'active'
    limit 1
  ) is not null`
// Reads the subtree once, then its entities by id, because PostgreSQL does not know its size when it plans.
const linksOf = (node: string): string => `
    cross join lateral (
      select own.entity_id from universe.node_entity own where own.tenant_id = ${node}.tenant_id and own.node_id = ${node}.id offset 0
    ) as link`
const ofNode = `array(
    select link.entity_id
    from universe.node n ${linksOf('n')}
    where n.hierarchy_id = ${hierarchyId} and n.status = 'active' and n.path >= ${nodePath} and n.path < ${nodePath} || 'g'
  )`
// Makes PostgreSQL use node_path_unique instead of reading all nodes.
const anyPath = "n.path >= (select '') and n.path < (select 'g')"
// Few entities of the list belong to a small hierarchy.
const ofSmallHierarchy = `array(
    select link.entity_id from universe.node n ${linksOf('n')} where n.hierarchy_id = ${hierarchyId} and n.status = 'active' and ${anyPath}
  )`
/** The most nodes, and the most links, of a small hierarchy. */
const small = 10_000
const fewLinks = statement(
  'universe_has_few_links',
  `select
    case when h.node_count <= ${small} then
      (
        select count(*)
        from (
          select from universe.node n ${linksOf('n')} where n.hierarchy_id = h.id and n.status = 'active' and ${anyPath} limit ${small + 1}
        ) as found
      ) <= ${small}
    else false end as few
  from universe.hierarchy h
  where h.key = $1::text`,
)

// The planner removes the conditions of filters that are not set.
const filtered = `
  ($1::text[] is null or e.type = any($1::text[]))
  and ($2::text[] is null or e.status = any($2::text[]))
  and e.updated_at >= $3::timestamptz
  and ($4::text[] is null or e.external_id = any($4::text[]))
  and (not $5::boolean or e.parent_id is null)
  and (
    ($6::uuid is null and $7::text is null and $8::text is null)
    or e.parent_id = (
      select above.id
      from universe.entity above
      where above.id = $6::uuid or above.reference = $7::text or above.external_id = $8::text
    )
  )
  and (
    $9::text[] is null
    or lower(e.owner ->> 'email') = any(array(select lower(named) from unnest($10::text[]) as named))
    or e.owner ->> 'person_id' = any(array(select lower(named) from unnest($10::text[]) as named))
    or lower(e.owner ->> 'name') = any(array(select lower(named) from unnest($9::text[]) as named))
    or (
      not e.owner ?| array['person_id', 'email']
      and lower(e.owner ->> 'name') = any(array(select lower(named) from unnest($23::text[]) as named))
    )
  )
  and ($11::text[] is null or coalesce(e.residual_rating, e.inherent_rating) = any($11::text[]))
  and ($12::date is null or e.next_audit_due_on < $12::date)
  and (
    $13::text is null
    or strpos(lower(concat_ws(' ', e.reference, e.external_id, e.name, e.description)), lower($13::text)) > 0
  )
  and ($14::text is null or not (${hasNoNode}) or $22::boolean or ${isOfHierarchy})
  and (not $22::boolean or e.id = any(${ofSmallHierarchy}))
  and ($14::text is null or ${hasNoNode} or e.id = any(${ofNode}))
  and (
    $17::text[] is null
    or e.source_connector_id = any($17::text[])
    or e.created_by_type = 'connector' and e.created_by_id = any($17::text[])
  )
  and (
    $18::uuid[] is null
    or e.parent_id = any(array(
      select above.id
      from universe.entity above
      where above.id = any($18::uuid[]) or above.reference = any($19::text[]) or above.external_id = any($20::text[])
    ))
  )
  and ($21::boolean is null or (e.source_missing_since is not null and s.connector_id is not null) = $21::boolean)`

const sorts = {
  reference: { expression: 'e.number', type: 'integer' },
  name: { expression: 'e.name', type: 'text' },
  updated_at: { expression: 'e.updated_at', type: 'timestamptz' },
  next_audit_due: { expression: "coalesce(e.next_audit_due_on, date 'infinity')", type: 'date' },
} as const
const tie = { column: 'e.number', type: 'integer' } as const

const flat = listStatements({
  name: 'universe_entities',
  columns: `${storedColumns}, null as path`,
  from: `universe.entity e ${entitySource}`,
  where: filtered,
  filters: 23,
  sorts,
  tie,
})

// A subtree is the range of paths that begin with the path of its top. `g` sorts after every hexadecimal digit.
const topPath = `
  select above.path
  from universe.entity top
  join universe.entity_path above on above.tenant_id = top.tenant_id and above.entity_id = top.id
  where top.id = $24::uuid or top.reference = $25::text or top.external_id = $26::text`
const subtreeFrom = `
  universe.entity_path place
  join universe.entity e on e.tenant_id = place.tenant_id and e.id = place.entity_id ${entitySource}`
const inRange = `
  place.path >= (${topPath})
  and place.path < (${topPath}) || 'g'
  and (not $27::boolean or place.path <> (${topPath}))`
const inSubtree = `${inRange}
  and ($28::integer is null or place.depth <= char_length((${topPath})) / 8 + $28::integer)`

const subtree = listStatements({
  name: 'universe_entities_below',
  columns: `${storedColumns}, place.path`,
  from: subtreeFrom,
  where: `${inSubtree} and ${filtered}`,
  filters: 28,
  sorts,
  tie,
})

const treePage = listStatement(
  'universe_entities_as_tree',
  `select ${storedColumns}, place.path
  from ${subtreeFrom}
  where ${inRange} and $28::integer is null and ${filtered} and place.path > $29::text
  order by place.path
  limit $30`,
)

// Reads each level only to the end of the page.
const levelsPage = listStatement(
  'universe_entity_levels_as_tree',
  `select listed.*
  from (
    select generate_series(top.depth, least(top.depth + $28::integer, 12)) as depth
    from (select char_length((${topPath})) / 8 as depth) as top
  ) as level
  cross join lateral (
    select ${storedColumns}, place.path
    from ${subtreeFrom}
    where ${inRange} and place.depth = level.depth and ${filtered} and place.path > $29::text
    order by place.path
    limit $30
  ) as listed
  order by listed.path
  limit $30`,
)

// The path contains the numbers of the ancestors.
const ancestors = statement(
  'universe_entity_ancestors',
  `with line as materialized (
    select
      self.number,
      array(
        select ('x' || substr(place.path, step.at * 8 - 7, 8))::bit(32)::integer
        from generate_series(1, place.depth) as step (at)
        order by step.at
      ) as numbers
    from universe.entity self
    join universe.entity_path place on place.tenant_id = self.tenant_id and place.entity_id = self.id
    where self.id = $1::uuid or self.reference = $2::text or self.external_id = $3::text
  )
  select ${storedColumns}, null as path, e.number = (select line.number from line) as is_self
  from universe.entity e ${entitySource}
  where e.number = any ((select line.numbers from line)::integer[])
  order by array_position((select line.numbers from line), e.number)`,
)

function findStatement(address: ResourceAddress): Statement {
  switch (address.by) {
    case 'id':
      return findById([address.id])
    case 'reference':
      return findByReference([address.reference])
    case 'external-id':
      return findByExternalId([address.externalId])
    default:
      return address satisfies never
  }
}

const columns = `${storedColumns}, null as path`

const findBy = (what: string, condition: string) =>
  statement(
    `universe_find_entity_by_${what}`,
    `select ${columns} from universe.entity e ${entitySource} where ${condition}`,
  )

const findById = findBy('id', 'e.id = $1::uuid')
const findByReference = findBy('reference', 'e.reference = $1::text')
const findByExternalId = findBy('external_id', 'e.external_id = $1::text')
