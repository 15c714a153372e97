import { type LogEntry, type LogKind, logKinds, maxLogWalk } from '@postern/contracts'
import { type TenantAssertion, type TenantDb, type Tx, statement } from '@postern/tenant-db'
import { listStatement, maxPageBytes } from '../../keyset.ts'
import { findLogEnd } from '../end/store.ts'
import { type LogRow, toEntry } from '../store.ts'

export interface WantedEntries {
  readonly kinds: readonly LogKind[] | undefined
  readonly actor: readonly string[] | undefined
}

const windowLength = 20_000

/** Reads at most `maxLogWalk` entries. `nextAfter` is where the next page continues. */
export async function pageOfTenantLog(
  db: TenantDb,
  tenant: TenantAssertion,
  { wanted, after, limit }: { readonly wanted: WantedEntries; readonly after: number; readonly limit: number },
): Promise<{ readonly entries: readonly LogEntry[]; readonly nextAfter: number | undefined }> {
  const entries: LogEntry[] = []
  let from = after
  let length = 0
  while (from < after + maxLogWalk) {
    const [start, to] = [from, from + windowLength]
    const [end, rows] = await db.read(tenant, async (tx) =>
      Promise.all([
        findLogEnd(tx),
        tx.query<LogRow>(
          listWindow([wanted.kinds ?? logKinds, wanted.actor ?? null, start, to, limit - entries.length]),
        ),
      ]),
    )
    entries.push(...rows.map(toEntry))
    for (const { entry } of rows) length += entry.length
    if (entries.length >= limit || end.position <= to) return { entries, nextAfter: undefined }
    from = to
    if (length > maxPageBytes / 2) break
  }
  return { entries, nextAfter: from }
}

/** Returns undefined beyond `maxLogWalk` entries. Without a filter it counts positions, which have no gaps. */
export async function countTenantLog(
  db: TenantDb,
  tenant: TenantAssertion,
  { wanted, after }: { readonly wanted: WantedEntries; readonly after: number },
): Promise<number | undefined> {
  const { position: last } = await db.read(tenant, findLogEnd)
  if (wanted.kinds === undefined && wanted.actor === undefined) return Math.max(0, last - after)
  if (last - after > maxLogWalk) return undefined
  let total = 0
  for (let from = after; from < last; from += windowLength) {
    const part = countWindow([wanted.kinds ?? logKinds, wanted.actor ?? null, from, from + windowLength])
    const [row] = await db.read(tenant, async (tx) => tx.query<{ total: number }>(part))
    total += row?.total ?? 0
  }
  return total
}

export interface LogStep {
  readonly position: number
  readonly entry: LogEntry | undefined
}

/** Returns the wanted entries, and every hundredth position between them, so that no statement reads for long. */
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

const listWindow = listStatement(
  'log_list_window',
  `select l.position, l.entry, l.hash
  from findings.tracker_log l
  where l.position > $3::bigint and l.position <= $4::bigint and ${isWanted}
  order by l.position
  limit $5`,
)

const countWindow = statement(
  'log_count_window',
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
