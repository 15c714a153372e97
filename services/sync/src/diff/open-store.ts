// The changes of a run that are neither applied nor refused, and how they come to be the one or the other.
import { statement } from '../sql/store.ts'
import { appliedUpTo } from './applied.ts'
import { type Comparison, type CurrentRow, type Tx, readInOrder } from './store.ts'

// Behind what is applied.
const isOpen = `c.run_id = $1::uuid and c.error is null
    and c.seq > greatest($2::integer, ${appliedUpTo('$1')})`
// Served by run_change_pk.
const nextChanges = statement(
  'sync_next_changes',
  `with next as (
    select c.seq, c.source_key, c.after, row_number() over same as place, sum(octet_length(c.after)) over same as bytes
    from (
      select c.seq, c.source_key, c.after::text as after
      from sync.run_change c
      where ${isOpen}
      order by c.seq
      limit $3::integer
    ) as c
    window same as (order by c.seq)
  )
  select next.seq, next.source_key, next.after
  from next
  where next.bytes <= $4::integer or next.place = 1
  order by next.seq`,
)

export interface OpenChange {
  readonly seq: number
  readonly source_key: string
  /** JSON. */
  readonly after: string
}

/** The next changes that are neither applied nor refused, at most so many and of at most so many bytes. */
export async function listOpenChanges(
  tx: Tx,
  runId: string,
  after: number,
  { rows, bytes }: { readonly rows: number; readonly bytes: number },
): Promise<OpenChange[]> {
  const [, changes] = await Promise.all([
    tx.execute(readInOrder),
    tx.query<OpenChange & { [column: string]: unknown }>(nextChanges([runId, after, rows, bytes])),
  ])
  return changes
}

const listOpenKeys = statement(
  'sync_list_open_keys',
  `select c.seq, c.source_key
  from sync.run_change c
  where ${isOpen}
  order by c.seq
  limit $3::integer`,
)

/** As `listOpenChanges`, without what changes. */
export async function listOpenChangeKeys(
  tx: Tx,
  runId: string,
  after: number,
  limit: number,
): Promise<Pick<OpenChange, 'seq' | 'source_key'>[]> {
  const [, changes] = await Promise.all([
    tx.execute(readInOrder),
    tx.query<{ seq: number; source_key: string }>(listOpenKeys([runId, after, limit])),
  ])
  return changes
}

/** Changes one after the other; those among them that are applied or refused are left out. */
export interface ChangeRange {
  readonly first: number
  readonly last: number
}

const staleChanges = statement(
  'sync_stale_changes',
  `select count(*)::integer as stale
  from sync.run_change c
  left join jsonb_to_recordset($4::jsonb) as given (key text, row jsonb) on given.key = c.source_key
  where c.run_id = $1::uuid and c.seq between $2::integer and $3::integer and c.error is null
    and given.row is distinct from c.before and given.row is distinct from c.after`,
)

/** How many of these changes would be others by now: the row is neither as it was nor as it shall be. */
export async function countStale(
  tx: Tx,
  runId: string,
  { first, last }: ChangeRange,
  current: readonly CurrentRow[],
): Promise<number> {
  const [row] = await tx.query<{ stale: number }>(staleChanges([runId, first, last, JSON.stringify(current)]))
  return row?.stale ?? 0
}

const doubtRows = statement(
  'sync_doubt_rows',
  `update sync.known_row k
  set hash = null
  from sync.run_change c
  where k.scope = $1::text and k.hash is not null
    and c.run_id = $2::uuid and c.error is null and c.source_key = k.source_key
    and c.seq > ${appliedUpTo('$2')}`,
)

/** Notes that how the rows that the run will change stand in the universe is not known any more, until a run has seen. */
export async function doubtKnownRows(tx: Tx, { scope, runId }: Comparison): Promise<void> {
  await tx.execute(doubtRows([scope, runId]))
}

const noteBatch = statement(
  'sync_note_batch',
  `insert into sync.applied_batch (tenant_id, run_id, last_seq)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer)`,
)

/** Notes that the universe has taken in all changes up to this one that it has not refused. */
export async function noteApplied(tx: Tx, runId: string, lastSeq: number): Promise<void> {
  await tx.execute(noteBatch([runId, lastSeq]))
}

const markRefused = statement(
  'sync_mark_refused',
  `update sync.run_change c
  set error = given.message
  from unnest($2::integer[], $3::text[]) as given (seq, message)
  where c.run_id = $1::uuid and c.seq = given.seq`,
)

export async function markChangesRefused(
  tx: Tx,
  runId: string,
  refused: readonly { readonly seq: number; readonly message: string }[],
): Promise<void> {
  await tx.execute(markRefused([runId, refused.map(({ seq }) => seq), refused.map(({ message }) => message)]))
}

const refusedKeys = statement(
  'sync_refused_keys',
  `select c.source_key as key
  from sync.run_change c
  where c.run_id = $1::uuid and c.error is not null and c.source_key = any ($2::text[])`,
)

/** Those of the keys whose change in the run the universe has refused. */
export async function listRefusedKeys(tx: Tx, runId: string, keys: readonly string[]): Promise<ReadonlySet<string>> {
  if (keys.length === 0) return new Set()
  const rows = await tx.query<{ key: string }>(refusedKeys([runId, keys]))
  return new Set(rows.map(({ key }) => key))
}

const countRefusedChanges = statement(
  'sync_count_refused',
  'select count(*)::integer as total from sync.run_change c where c.run_id = $1::uuid and c.error is not null',
)

/** How many changes of the run the universe has refused. */
export async function countRefused(tx: Tx, runId: string): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countRefusedChanges([runId]))
  return row?.total ?? 0
}
