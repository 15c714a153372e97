import { setImmediate } from 'node:timers/promises'
import type { ApplyEntitiesAnswer } from '@postern/contracts/internal'
import { type CreatedBy, type Entity, type PushedEntity, entityStatuses } from '@postern/contracts'
import { type Statement, type Tx, arrayLiteral, sqlError, statement } from '@postern/tenant-db'
import { compareAsSets, raiseWorkMemory, readByIndexes, sliceLength } from '../list/store.ts'

export type { Tx } from '@postern/tenant-db'

/** Locks the tree until the transaction ends. Returns the last number of an entity. */
export async function lockTree(tx: Tx): Promise<number> {
  const [, rows] = await Promise.all([
    tx.execute(makeCounter([])),
    tx.query<{ last_number: number }>(lockCounter([])),
    readByIndexes(tx),
    raiseWorkMemory(tx),
  ])
  return rows[0]?.last_number ?? 0
}

export interface Identity {
  readonly id: string
  readonly status: Entity['status'] | undefined
}

/** Returns ids, new ones for unknown entities, in the order of the external ids. Call it under `lockTree`. */
export async function identify(tx: Tx, externalIds: readonly string[]): Promise<Identity[]> {
  const [row] = await tx.query<{ ids: string | null; statuses: string | null }>(identities([arrayLiteral(externalIds)]))
  const ids = row?.ids?.split(',') ?? []
  const statuses = row?.statuses?.split(',') ?? []
  return ids.map((id, at) => ({ id, status: entityStatuses.find((status) => status === statuses[at]) }))
}

export interface IdentifiedEntity {
  readonly entity: PushedEntity
  readonly identity: Identity
  readonly parentId: string | undefined
}

/** Numbers new rows in order. Call it under `lockTree`, with existing parents. */
export async function applyIdentified(
  tx: Tx,
  rows: readonly IdentifiedEntity[],
  lastNumber: number,
  createdBy: CreatedBy,
): Promise<ApplyEntitiesAnswer> {
  let number = lastNumber
  const numbers = rows.map(({ identity }) => (identity.status === undefined ? (number += 1) : undefined))
  const created = number - lastNumber
  const slice = created === rows.length ? insertAll : applyStatement
  const answers: Promise<{ updated: number }[]>[] = []
  for (const [from, to] of created === rows.length ? slicesOf(rows) : [[0, rows.length] as const]) {
    const some = rows.slice(from, to)
    answers.push(
      tx.query<{ updated: number }>(
        slice([
          createdBy.type,
          createdBy.id,
          createdBy.label,
          arrayLiteral(numbers.slice(from, to)),
          ...columns.map(([, , valueOf]) => arrayLiteral(some.map(valueOf))),
        ]),
      ),
    )
    // PostgreSQL works on these while the next ones are serialized.
    await setImmediate()
  }
  const [counts] = await Promise.all([Promise.all(answers), created === 0 ? undefined : tx.execute(countOn([number]))])
  const updated = counts[0]?.[0]?.updated ?? 0
  return { created, updated, unchanged: rows.length - created - updated }
}

const sliceRows = 1000

/** There is one slice if a row precedes its parent, because slices are placed separately. */
function slicesOf(rows: readonly IdentifiedEntity[]): (readonly [number, number])[] {
  const slices: [number, number][] = []
  const sliceOf = new Map<string, number>()
  let from = 0
  let length = 0
  for (const [at, { entity, identity }] of rows.entries()) {
    sliceOf.set(identity.id, slices.length)
    length += lengthOf(entity)
    if (at + 1 - from < sliceRows && length < sliceLength && at + 1 < rows.length) continue
    slices.push([from, at + 1])
    from = at + 1
    length = 0
  }
  const isInOrder = rows.every(({ identity, parentId }) => {
    const above = parentId === undefined ? undefined : sliceOf.get(parentId)
    return above === undefined || above <= (sliceOf.get(identity.id) ?? 0)
  })
  return isInOrder ? slices : [[0, rows.length]]
}

function lengthOf({ description, custom = {} }: PushedEntity): number {
  let length = description?.length ?? 0
  for (const value of Object.values(custom)) if (typeof value === 'string') length += value.length
  return length
}

export function isTreeRefusal(error: unknown): boolean {
  const { constraint } = sqlError(error)
  return constraint === 'entity_tree_acyclic' || constraint === 'entity_tree_depth'
}

/** Finds the rows for which the database rejected a push. */
export async function listMisplaced(
  tx: Tx,
  entities: readonly PushedEntity[],
  maxDepth: number,
): Promise<{ readonly index: number; readonly fault: 'cycle' | 'too-deep' }[]> {
  const rows = JSON.stringify(entities.map(toLink))
  const [, misplaced] = await Promise.all([
    compareAsSets(tx),
    tx.query<{ index: number; fault: 'cycle' | 'too-deep' }>(misplacedRows([rows, maxDepth])),
  ])
  return misplaced
}

function toLink({ external_id, parent_external_id }: PushedEntity, index: number): object {
  return { index, external_id, parent_external_id }
}

const columns: readonly (readonly [string, string, (row: IdentifiedEntity) => unknown])[] = [
  ['id', 'uuid', ({ identity }) => identity.id],
  ['external_id', 'text', ({ entity }) => entity.external_id],
  ['parent_id', 'uuid', ({ parentId }) => parentId],
  ['name', 'text', ({ entity }) => entity.name],
  ['description', 'text', ({ entity }) => entity.description],
  ['type', 'text', ({ entity }) => entity.type],
  ['status', 'text', ({ entity }) => entity.status],
  ['owner', 'jsonb', ({ entity }) => entity.owner],
  ['audit_lead', 'jsonb', ({ entity }) => entity.audit_lead],
  ['executive', 'jsonb', ({ entity }) => entity.executive],
  ['inherent_rating', 'text', ({ entity }) => entity.inherent_risk?.rating],
  ['inherent_score', 'double precision', ({ entity }) => entity.inherent_risk?.score],
  ['residual_rating', 'text', ({ entity }) => entity.residual_risk?.rating],
  ['residual_score', 'double precision', ({ entity }) => entity.residual_risk?.score],
  ['risk_assessed_on', 'date', ({ entity }) => entity.risk_assessed_at],
  ['audit_frequency_months', 'integer', ({ entity }) => entity.audit_frequency_months],
  ['last_audit_on', 'date', ({ entity }) => entity.last_audit_date],
  ['last_audit_opinion', 'text', ({ entity }) => entity.last_audit_opinion],
  ['regulatory_next_due_on', 'date', ({ entity }) => entity.regulatory_next_due],
  ['custom', 'jsonb', ({ entity }) => entity.custom ?? {}],
]
const names = columns.map(([name]) => name)
const changeable = names.filter((name) => name !== 'id' && name !== 'external_id')

const makeCounter = statement(
  'universe_make_counter',
  `insert into universe.reference_counter (tenant_id, last_number)
  values ((select tenancy.tenant_id()), 0)
  on conflict (tenant_id) do nothing`,
)

// A separate statement sees the commits of the previous holder.
const lockCounter = statement(
  'universe_lock_counter',
  'select counter.last_number from universe.reference_counter counter for update',
)

// With an estimate of few entities PostgreSQL would read all of them.
const identities = statement(
  'universe_identify_entities',
  `select
    string_agg(coalesce(known.id, uuidv7())::text, ',' order by wanted.at) as ids,
    string_agg(coalesce(known.status, ''), ',' order by wanted.at) as statuses
  from unnest($1::text[]) with ordinality as wanted (external_id, at)
  left join lateral (
    select e.id, e.status from universe.entity e where e.external_id = wanted.external_id limit 1
  ) as known on true`,
)

const countOn = statement(
  'universe_count_on',
  'update universe.reference_counter counter set last_number = $1::integer where counter.last_number < $1::integer',
)

// Columns take a third of the time of an object for each row.
const given = `unnest(
      $4::integer[], ${columns.map(([, type], at) => `$${at + 5}::${type}[]`).join(', ')}
    ) as given (number, ${names.join(', ')})`
const insert = (from: string): string => `
  insert into universe.entity (
    tenant_id, number, ${names.join(', ')}, created_by_type, created_by_id, created_by_label
  )
  select (select tenancy.tenant_id()), given.number, ${names.map((name) => `given.${name}`).join(', ')}, $1::text, $2::text, $3::text
  from ${from}`

const insertAll = statement('universe_insert_entities', insert(given))

// One statement, because new and moved entities may be below each other. Unnamed, because a plan for a few entities is slow for many.
const applyStatement = (values: readonly unknown[]): Statement => ({
  text: `with given as materialized (select * from ${given}),
  made as (${insert('given')} where given.number is not null returning 1 as one),
  changed as (
    update universe.entity e
    set ${changeable.map((name) => `${name} = given.${name}`).join(', ')}, updated_at = now(), version = e.version + 1
    from given
    where given.number is null and e.id = given.id
      and (${changeable.map((name) => `e.${name}`).join(', ')})
        is distinct from (${changeable.map((name) => `given.${name}`).join(', ')})
    returning 1 as one
  )
  select
    (select count(*)::integer from made) as created,
    (select count(*)::integer from changed) as updated`,
  values,
})

// Rows that no root reaches are in a circle. If a branch is too deep, the nearest pushed row above is reported.
const misplacedRows = statement(
  'universe_misplaced_rows',
  `with recursive pushed as materialized (
    select given.index, given.external_id, given.parent_external_id, coalesce(known.id, uuidv7()) as id, place.depth as was
    from jsonb_to_recordset($1::jsonb) as given (index integer, external_id text, parent_external_id text)
    left join lateral (
      select e.id from universe.entity e where e.external_id = given.external_id limit 1
    ) as known on true
    left join lateral (
      select path.depth from universe.entity_path path where path.entity_id = known.id limit 1
    ) as place on true
  ),
  named as materialized (
    select pushed.index, pushed.id, pushed.was, coalesce(inside.id, stored.id) as parent_id
    from pushed
    left join pushed inside on inside.external_id = pushed.parent_external_id
    left join lateral (
      select e.id from universe.entity e where inside.id is null and e.external_id = pushed.parent_external_id limit 1
    ) as stored on true
  ),
  link as (
    select named.id, named.parent_id, named.index, named.was
    from named
    union
    select above.id, above.parent_id, null::integer, null::integer
    from link
    cross join lateral (
      select e.id, e.parent_id from universe.entity e where e.id = link.parent_id limit 1
    ) as above
    where link.parent_id not in (select named.id from named)
  ),
  reached as (
    select link.id, 1 as depth, link.index, link.was
    from link
    where link.parent_id is null
    union all
    select link.id, reached.depth + 1, coalesce(link.index, reached.index), link.was
    from reached
    join link on link.parent_id = reached.id
  ),
  below as (
    select reached.id, reached.depth, reached.index
    from reached
    where reached.depth > reached.was
    union all
    select child.id, below.depth + 1, below.index
    from below
    cross join lateral (
      select e.id from universe.entity e where e.parent_id = below.id offset 0
    ) as child
    where below.depth <= $2::integer and child.id not in (select named.id from named)
  )
  select reached.index, 'too-deep' as fault
  from reached
  where reached.depth > $2::integer and reached.index is not null
  union
  select below.index, 'too-deep'
  from below
  where below.depth > $2::integer
  union
  select named.index, 'cycle'
  from named
  where named.id not in (select reached.id from reached)
  order by index`,
)
