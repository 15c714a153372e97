import { type LogEntry, type LogKind, logKinds, maxLogWalk } from '@postern/contracts'
import type { TenantAssertion, TenantDb, Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'
import { listStatement, mostBytes } from '../keyset.ts'
import { type LogRow, findLogEnd, toEntry } from './store.ts'

/** The entries of a tenant that are asked for: all of them where nothing is said. No index serves either. */
export interface WantedEntries {
  readonly kinds: readonly LogKind[] | undefined
  /** Ids of who wrote them. */
  readonly actor: readonly string[] | undefined
}

/** How far a statement looks for what is wanted: less than it may take long for. */
const stretch = 20_000

/**
 * Entries of the tenant behind a position, in their order, up to `limit`. Looks through `maxLogWalk` entries at most, a
 * stretch in each transaction; `onward` is the position to go on behind where that was not enough for `limit` entries and
 * more lies behind.
 */
export async function pageOfTenantLog(
  db: TenantDb,
  tenant: TenantAssertion,
  { wanted, after, limit }: { readonly wanted: WantedEntries; readonly after: number; readonly limit: number },
): Promise<{ readonly entries: readonly LogEntry[]; readonly onward: number | undefined }> {
  const entries: LogEntry[] = []
  let from = after
  let length = 0
  while (from < after + maxLogWalk) {
    const [start, to] = [from, from + stretch]
    const [end, rows] = await db.read(tenant, async (tx) =>
      Promise.all([
        findLogEnd(tx),
        tx.query<LogRow>(
          listStretch([wanted.kinds ?? logKinds, wanted.actor ?? null, start, to, limit - entries.length]),
        ),
      ]),
    )
    entries.push(...rows.map(toEntry))
    for (const { entry } of rows) length += entry.length
    if (entries.length >= limit || end.position <= to) return { entries, onward: undefined }
    from = to
    // What several stretches bring together has a bound too.
    if (length > mostBytes / 2) break
  }
  return { entries, onward: from }
}

/**
 * How many entries of the tenant are wanted, behind a position. Undefined where that would be to look through more than
 * `maxLogWalk` of them. All of them are counted without looking: positions have no gaps.
 */
export async function countTenantLog(
  db: TenantDb,
  tenant: TenantAssertion,
  { wanted, after }: { readonly wanted: WantedEntries; readonly after: number },
): Promise<number | undefined> {
  const { position: last } = await db.read(tenant, findLogEnd)
  if (wanted.kinds === undefined && wanted.actor === undefined) return Math.max(0, last - after)
  if (last - after > maxLogWalk) return undefined
  let total = 0
  for (let from = after; from < last; from += stretch) {
    const part = countStretch([wanted.kinds ?? logKinds, wanted.actor ?? null, from, from + stretch])
    const [row] = await db.read(tenant, async (tx) => tx.query<{ total: number }>(part))
    total += row?.total ?? 0
  }
  return total
}

/** A position of the log, and its entry where that is wanted. */
export interface LogStep {
  readonly position: number
  readonly entry: LogEntry | undefined
}

/**
 * The steps behind a position, in their order: entries that are wanted, and every hundredth position between them. So a
 * reader that takes some steps at a time, in whatever way, never waits for more than a hundred times as many entries.
 */
export async function listTenantLog(
  tx: Tx,
  { wanted, after, limit }: { readonly wanted: WantedEntries; readonly after: number; readonly limit: number },
): Promise<LogStep[]> {
  const rows = await tx.query<Omit<LogRow, 'entry'> & { entry: string | null }>(
    listSteps([wanted.kinds ?? logKinds, wanted.actor ?? null, after, limit]),
  )
  return rows.map(({ position, entry, hash }) => ({
    position: Number(position),
    entry: entry === null ? undefined : toEntry({ position, entry, hash }),
  }))
}

const isWanted = '(l.kind = any($1::text[]) and ($2::text[] is null or l.actor_id = any($2)))'

// tracker_log_pk, from one position to another.
const listStretch = listStatement(
  'log_list_stretch',
  `select l.position, l.entry, l.hash
  from findings.tracker_log l
  where l.position > $3::bigint and l.position <= $4::bigint and ${isWanted}
  order by l.position
  limit $5`,
)

// tracker_log_pk, from one position to another.
const countStretch = statement(
  'log_count_stretch',
  `select count(*)::integer as total
  from findings.tracker_log l
  where l.position > $3::bigint and l.position <= $4::bigint and ${isWanted}`,
)

// tracker_log_pk
const listSteps = listStatement(
  'log_list_steps',
  `select l.position, case when ${isWanted} then l.entry end as entry, l.hash
  from findings.tracker_log l
  where l.position > $3::bigint and (${isWanted} or l.position % 100 = 0)
  order by l.position
  limit $4`,
)
