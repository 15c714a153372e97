import type { CreatedBy, LogEntry, LogKind } from '@postern/contracts'
import { logKinds } from '@postern/contracts'
import { emptyRoot, hashOf, sealEntry } from '@postern/log-chain'
import { type Tx, statement } from '@postern/tenant-db'
import { listStatement } from '../keyset.ts'
import type { LogDraft } from './rules.ts'

export interface LogEnd {
  readonly position: number
  readonly root: string
  readonly recordedAt: Date | undefined
}

/** The sealer gives it its position after the commit. */
export type WrittenEntry = Omit<LogEntry, 'position'>

export interface AppendedEntries {
  readonly entries: readonly WrittenEntry[]
  readonly signed: SignedEnd | undefined
}

export async function appendEntries(tx: Tx, actor: CreatedBy, drafts: readonly LogDraft[]): Promise<AppendedEntries> {
  const findingIds = [...new Set(drafts.map(({ findingId }) => findingId))]
  const [heads, signed, [clock]] = await Promise.all([
    tx.query<HeadRow>(readHeads([findingIds])),
    findSignedEnd(tx),
    tx.query<{ now: Date }>(readClock([])),
  ])
  if (clock === undefined) throw new Error('the clock of the database returned no row')
  const last = new Map(heads.map((head) => [head.finding_id, { seq: head.seq ?? 0, hash: head.hash }]))
  const entries = drafts.map((draft) => {
    const head = last.get(draft.findingId) ?? { seq: 0, hash: null }
    const content: Omit<WrittenEntry, 'hash'> = {
      seq: head.seq + 1,
      finding_id: draft.findingId,
      action_plan_id: draft.actionPlanId ?? null,
      recommendation_id: draft.recommendationId ?? null,
      kind: draft.kind,
      body: draft.body ?? null,
      changes: [...(draft.changes ?? [])],
      evidence_refs: [...(draft.evidenceRefs ?? [])],
      corrects_seq: draft.correctsSeq ?? null,
      occurred_at: (draft.occurredAt !== undefined && draft.occurredAt < clock.now
        ? draft.occurredAt
        : clock.now
      ).toISOString(),
      recorded_at: clock.now.toISOString(),
      actor,
      on_behalf_of: draft.onBehalfOf ?? null,
      prev_hash: head.hash,
    }
    const text = sealEntry(content)
    const hash = hashOf(text)
    last.set(draft.findingId, { seq: content.seq, hash })
    return { text, entry: { ...content, hash } }
  })
  for (let from = 0; from < entries.length; from += insertBatch) {
    const some = entries.slice(from, from + insertBatch)
    await tx.execute(insertEntries([some.map(({ entry }) => entry.finding_id), some.map(({ text }) => text)]))
  }
  return { entries: entries.map(({ entry }) => entry), signed }
}

const insertBatch = 100

export async function hasUnplacedEntries(tx: Tx): Promise<boolean> {
  const rows = await tx.query(firstUnplaced([]))
  return rows.length > 0
}

export interface PlacedEntries {
  readonly before: LogEnd
  readonly end: LogEnd
  readonly count: number
  readonly now: Date
}

export const placeBatch = 500

/** Gives committed entries their positions. The end of the log must be locked. */
export async function assignEntryPositions(tx: Tx): Promise<PlacedEntries> {
  const [[before], [placed], [end], [clock]] = await Promise.all([
    tx.query<EndRow>(readEnd([])),
    tx.query<{ count: number }>(placeWaiting([placeBatch])),
    tx.query<EndRow>(readEnd([])),
    tx.query<{ now: Date }>(readClock([])),
  ])
  if (placed === undefined || clock === undefined) throw new Error('placing entries returned no row')
  return { before: endOf(before), end: endOf(end), count: placed.count, now: clock.now }
}

export async function findPosition(tx: Tx, findingId: string, seq: number): Promise<number | undefined> {
  const [row] = await tx.query<{ position: string }>(positionOf([findingId, seq]))
  return row === undefined ? undefined : Number(row.position)
}

export async function findLogEnd(tx: Tx): Promise<LogEnd> {
  const [end] = await tx.query<EndRow>(readEnd([]))
  return endOf(end)
}

export async function findLastSeq(tx: Tx, findingId: string): Promise<number> {
  const [head] = await tx.query<HeadRow>(readHeads([[findingId]]))
  return head?.seq ?? 0
}

export interface LogPage {
  readonly kinds: readonly LogKind[] | undefined
  readonly after: number
  readonly limit: number
}

export async function listFindingLog(tx: Tx, findingId: string, { kinds, after, limit }: LogPage): Promise<LogEntry[]> {
  const rows = await tx.query<LogRow>(listOfFinding([findingId, kinds ?? logKinds, after, limit]))
  return rows.map(toEntry)
}

export async function listLastEntries(tx: Tx, findingIds: readonly string[], limit: number): Promise<LogEntry[]> {
  const rows = await tx.query<LogRow>(lastOfFindings([findingIds, limit]))
  return rows.map(toEntry)
}

export interface StoredEntry {
  /** A bigint, as text. Negative while unplaced. */
  readonly position: string
  readonly seq: number
  readonly entry: string
  readonly hash: string
}

/** Including those without a position. */
export async function listFindingEntries(
  tx: Tx,
  findingId: string,
  { after, limit }: Pick<LogPage, 'after' | 'limit'>,
): Promise<StoredEntry[]> {
  return await tx.query<StoredEntry & Record<string, unknown>>(entriesOfFinding([findingId, after, limit]))
}

export async function countFindingLog(
  tx: Tx,
  findingId: string,
  { kinds, after }: Pick<LogPage, 'kinds' | 'after'>,
): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countOfFinding([findingId, kinds ?? logKinds, after]))
  return row?.total ?? 0
}

export interface StoredCheckpoint {
  readonly day: string
  readonly position: number
  readonly root: string
  readonly jws: string
}

/** Unless the day has one. */
export async function insertCheckpoint(tx: Tx, { day, position, root, jws }: StoredCheckpoint): Promise<void> {
  await tx.execute(saveCheckpoint([day, position, root, jws]))
}

export interface SignedEnd extends StoredCheckpoint {
  /** Null if the log is shorter. */
  readonly found: string | null
}

export async function findSignedEnd(tx: Tx): Promise<SignedEnd | undefined> {
  const [row] = await tx.query<{ position: string; root: string; day: string; jws: string; found: string | null }>(
    readSignedEnd([]),
  )
  return row === undefined ? undefined : { ...row, position: Number(row.position) }
}

/** Replaces the signed end. The end of the log must be locked. */
export async function saveSignedEnd(tx: Tx, { day, position, root, jws }: StoredCheckpoint): Promise<void> {
  await tx.execute(upsertSignedEnd([day, position, root, jws]))
}

export interface Sealed {
  readonly checkpoint: StoredCheckpoint | undefined
  readonly isBehind: boolean
  /** The database's day (UTC). */
  readonly today: string
}

export async function findSealed(tx: Tx, day: string): Promise<Sealed> {
  const [row] = await tx.query<SealedRow>(lastCheckpoint([day]))
  if (row === undefined) throw new Error('the checkpoint of a day returned no row')
  const { day: of, position, root, jws, is_behind: isBehind, today } = row
  const isThere = of !== null && position !== null && root !== null && jws !== null
  return { checkpoint: isThere ? { day: of, position: Number(position), root, jws } : undefined, isBehind, today }
}

interface SealedRow {
  readonly day: string | null
  readonly position: string | null
  readonly root: string | null
  readonly jws: string | null
  readonly is_behind: boolean
  readonly today: string
}

export async function lockLog(tx: Tx): Promise<void> {
  await tx.query(lockEnd([]))
}

export async function findDayEnd(
  tx: Tx,
  day: string,
): Promise<(Omit<StoredCheckpoint, 'jws'> & { readonly now: Date }) | undefined> {
  const [row] = await tx.query<{ day: string; position: string; root: string; now: Date }>(dayEnd([day]))
  return row === undefined ? undefined : { ...row, position: Number(row.position) }
}

interface EndRow {
  readonly position: string
  readonly root: string
  readonly recorded_at: Date
}

interface HeadRow {
  readonly finding_id: string
  readonly seq: number | null
  readonly hash: string | null
}

export interface LogRow {
  readonly position: string
  readonly entry: string
  readonly hash: string
}

function endOf(row: EndRow | undefined): LogEnd {
  if (row === undefined) return { position: 0, root: emptyRoot, recordedAt: undefined }
  return { position: Number(row.position), root: row.root, recordedAt: row.recorded_at }
}

export function toEntry({ position, entry, hash }: LogRow): LogEntry {
  // Only appendEntries writes entries.
  const content: Omit<WrittenEntry, 'hash'> = JSON.parse(entry)
  return { position: Number(position), ...content, hash }
}

// The same lock as `findings.place_log_entries`. Acquired first, so that the end cannot move.
const lockEnd = statement(
  'log_hold_end',
  `select from pg_advisory_xact_lock(hashtextextended('findings.tracker_log ' || (select tenancy.tenant_id())::text, 0))`,
)

// tracker_log_pk, backward
const readEnd = statement(
  'log_read_end',
  `select l.position, l.root, l.recorded_at
  from findings.tracker_log l
  where l.position > 0
  order by l.position desc
  limit 1`,
)

// tracker_log_pk
const firstUnplaced = statement('log_first_unplaced', 'select from findings.tracker_log l where l.position < 0 limit 1')

const placeWaiting = statement('log_place', 'select findings.place_log_entries($1) as count')

// tracker_log_seq_unique
const positionOf = statement(
  'log_position_of',
  'select l.position from findings.tracker_log l where l.finding_id = $1::uuid and l.seq = $2 and l.position > 0',
)

// log_end_pk, tracker_log_pk
const readSignedEnd = statement(
  'log_read_signed_end',
  `select signed.position, signed.root, signed.day, signed.jws, l.root as found
  from findings.log_end signed
  left join findings.tracker_log l on l.tenant_id = signed.tenant_id and l.position = signed.position`,
)

const upsertSignedEnd = statement(
  'log_keep_signed_end',
  `insert into findings.log_end as signed (tenant_id, day, position, root, jws)
  values ((select tenancy.tenant_id()), $1::date, $2::bigint, $3, $4)
  on conflict (tenant_id) do update
    set day = greatest(signed.day, excluded.day), position = excluded.position, root = excluded.root, jws = excluded.jws`,
)

const readClock = statement('log_read_clock', 'select now()::timestamptz(3) as now')

// tracker_log_seq_unique, backward, once per finding
const readHeads = statement(
  'log_read_heads',
  `select finding.id as finding_id, head.seq, head.hash
  from unnest($1::uuid[]) as finding (id)
  left join lateral (
    select l.seq, l.hash
    from findings.tracker_log l
    where l.finding_id = finding.id
    order by l.seq desc
    limit 1
  ) as head on true`,
)

// In order of the chain, because a trigger numbers each row.
const insertEntries = statement(
  'log_insert',
  `insert into findings.tracker_log (tenant_id, finding_id, entry)
  select (select tenancy.tenant_id()), new.finding_id, new.entry
  from unnest($1::uuid[], $2::text[]) with ordinality as new (finding_id, entry, place)
  order by new.place`,
)

// tracker_log_seq_unique
const listOfFinding = listStatement(
  'log_list_of_finding',
  `select l.position, l.seq, l.entry, l.hash
  from findings.tracker_log l
  where l.finding_id = $1::uuid and l.kind = any($2::text[]) and l.seq > $3::bigint and l.position > 0
  order by l.seq
  limit $4`,
)

// tracker_log_seq_unique
const entriesOfFinding = listStatement(
  'log_entries_of_finding',
  `select l.position, l.seq, l.entry, l.hash
  from findings.tracker_log l
  where l.finding_id = $1::uuid and l.seq > $2::bigint
  order by l.seq
  limit $3`,
)

// tracker_log_seq_unique, backward
const lastOfFindings = listStatement(
  'log_last_of_findings',
  `select near.position, near.entry, near.hash
  from unnest($1::uuid[]) as wanted (id)
  cross join lateral (
    select l.position, l.seq, l.entry, l.hash
    from findings.tracker_log l
    where l.finding_id = wanted.id and l.position > 0
    order by l.seq desc
    limit $2::integer
  ) as near
  order by wanted.id, near.seq`,
)

const countOfFinding = statement(
  'log_count_of_finding',
  `select count(*)::integer as total
  from findings.tracker_log l
  where l.finding_id = $1::uuid and l.kind = any($2::text[]) and l.seq > $3::bigint and l.position > 0`,
)

const saveCheckpoint = statement(
  'log_save_checkpoint',
  `insert into findings.log_checkpoint (tenant_id, day, position, root, jws)
  values ((select tenancy.tenant_id()), $1::date, $2::bigint, $3, $4)
  on conflict (tenant_id, day) do nothing`,
)

const dayOver = `least($1::date, (now() at time zone 'UTC')::date - 1)`

const afterDays = `(${dayOver} + 1)::timestamp at time zone 'UTC'`

// log_checkpoint_pk, backward
const checkpointOf = `
  (values (1)) as one (row)
  left join lateral (
    select c.day, c.position, c.root, c.jws
    from findings.log_checkpoint c
    where c.day <= $1::date
    order by c.day desc
    limit 1
  ) as c on true`

const nextPosition = `coalesce(
  (select min(later.position) from findings.log_checkpoint later where later.day > $1::date), 9223372036854775807)`

// tracker_log_pk, for the entry after the checkpoint
const lastCheckpoint = statement(
  'log_last_checkpoint',
  `select c.day, c.position, c.root, c.jws, coalesce(
    next.recorded_at < ${afterDays} and (c.day is null or c.day < ${dayOver}) and next.position <= ${nextPosition},
    false) as is_behind, (now() at time zone 'UTC')::date as today
  from ${checkpointOf}
  left join findings.tracker_log next on next.position = coalesce(c.position, 0) + 1`,
)

// An entry from before midnight that commits later belongs to the next day, so that days follow positions.
const dayEnd = statement(
  'log_day_end',
  `select greatest(covered.day, c.day + 1) as day, l.position, l.root, now()::timestamptz(3) as now
  from ${checkpointOf}
  cross join lateral (
    select max((e.recorded_at at time zone 'UTC')::date) as day, max(e.position) as position
    from findings.tracker_log e
    where e.position > coalesce(c.position, 0) and e.position <= ${nextPosition}
      and e.position < coalesce((
        select later.position
        from findings.tracker_log later
        where later.position > coalesce(c.position, 0) and later.recorded_at >= ${afterDays}
        order by later.position
        limit 1
      ), 9223372036854775807)
  ) as covered
  join findings.tracker_log l on l.position = covered.position
  where c.day is null or c.day < ${dayOver}`,
)
