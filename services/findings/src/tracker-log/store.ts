import type { CreatedBy, LogEntry, LogKind } from '@postern/contracts'
import { logKinds } from '@postern/contracts'
import { hashOf, sealEntry } from '@postern/log-chain'
import { type Tx, statement } from '@postern/tenant-db'
import { listStatement } from '../keyset.ts'
import { type LogEnd, type SignedEnd, findLogEnd, findSignedEnd } from './end/store.ts'
import type { LogDraft } from './rules.ts'

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
  const [before, [placed], end, [clock]] = await Promise.all([
    findLogEnd(tx),
    tx.query<{ count: number }>(placeWaiting([placeBatch])),
    findLogEnd(tx),
    tx.query<{ now: Date }>(readClock([])),
  ])
  if (placed === undefined || clock === undefined) throw new Error('placing entries returned no row')
  return { before, end, count: placed.count, now: clock.now }
}

export async function findPosition(tx: Tx, findingId: string, seq: number): Promise<number | undefined> {
  const [row] = await tx.query<{ position: string }>(positionOf([findingId, seq]))
  return row === undefined ? undefined : Number(row.position)
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

/** Lists entries, including those without a position. */
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

export function toEntry({ position, entry, hash }: LogRow): LogEntry {
  // Only appendEntries writes entries.
  const content: Omit<WrittenEntry, 'hash'> = JSON.parse(entry)
  return { position: Number(position), ...content, hash }
}

// tracker_log_pk
const firstUnplaced = statement('log_first_unplaced', 'select from findings.tracker_log l where l.position < 0 limit 1')

const placeWaiting = statement('log_place', 'select findings.place_log_entries($1) as count')

// tracker_log_seq_unique
const positionOf = statement(
  'log_position_of',
  'select l.position from findings.tracker_log l where l.finding_id = $1::uuid and l.seq = $2 and l.position > 0',
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
