import { type Revocation, revocationSchema } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'

export interface GrantRow {
  readonly gateway: string
  /** The last entry that it applied. */
  readonly acked: number
  /** Differs for each grant. */
  readonly grant: string
  /** The gateway released its lease and has not acquired another one. */
  readonly released: boolean
}

export interface LogReading {
  readonly seq: number
  /** The mark of the log at the last entry read; null if unknown. */
  readonly mark: string | null
  /** The log could not continue from the cursor. `entries` is everything that it contains. */
  readonly reset: boolean
  readonly entries: readonly Revocation[]
  /** Database clock (epoch ms). */
  readonly now: number
}

/** Grants or renews a lease if the gateway has applied the whole log. Commit before calling `readLog`. */
export async function renewLease(
  tx: Tx,
  {
    gateway,
    name,
    cursor,
    mark,
    leaseMs,
  }: { gateway: string; name: string; cursor: number; mark: string | null; leaseMs: number },
): Promise<boolean> {
  const [row] = await tx.query<{ granted: boolean }>({
    name: 'keys_renew_lease',
    text: 'select keys.grant_lease($1, $2, $3, $4, $5) as granted',
    values: [gateway, name, cursor, mark, leaseMs],
  })
  return row?.granted === true
}

/** Starts the count of complete usage again, because a gateway has uses that it could not report. */
export async function recordLateUsage(tx: Tx): Promise<void> {
  await tx.execute({ name: 'keys_note_late_usage', text: 'select keys.note_late_usage()', values: [] })
}

export async function releaseLease(tx: Tx, gateway: string): Promise<void> {
  await tx.execute({ name: 'keys_release_lease', text: 'select keys.release_lease($1)', values: [gateway] })
}

export async function readGrants(tx: Tx): Promise<GrantRow[]> {
  return await tx.query<{ gateway: string; acked: number; grant: string; released: boolean }>({
    name: 'keys_read_grants',
    text: `
      select g.gateway, g.acked::float8 as acked, g.grant_id as grant, g.released
        from keys.read_grants() as g`,
    values: [],
  })
}

/** Deletes gateways whose grant is unchanged since these rows were read. */
export async function forgetLeases(tx: Tx, gone: readonly Pick<GrantRow, 'gateway' | 'grant'>[]): Promise<void> {
  await tx.execute({
    name: 'keys_forget_leases',
    text: 'select keys.forget_leases($1, $2)',
    values: [gone.map(({ gateway }) => gateway), gone.map(({ grant }) => grant)],
  })
}

export async function countLeases(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ live: number }>({
    name: 'keys_count_leases',
    text: 'select count(*)::int4 as live from keys.read_leases() as l where l.live',
    values: [],
  })
  return row?.live ?? 0
}

const entriesSchema = z.array(revocationSchema)

/** Returns up to `limit` entries after the cursor (null: from the first) in one snapshot. */
export async function readLog(
  tx: Tx,
  { cursor, mark, limit }: { cursor: number | null; mark: string | null; limit: number },
): Promise<LogReading> {
  const [row] = await tx.query<Omit<LogReading, 'entries'> & { entries: unknown }>({
    name: 'keys_read_log',
    text: `
      select l.log_seq::float8 as seq, l.mark, l.reset, l.entries, l.now_ms::float8 as now
        from keys.follow_log($1, $2, $3) as l`,
    values: [cursor, mark, limit],
  })
  if (row === undefined) throw new Error('the revocation log has no counter row')
  return { ...row, entries: entriesSchema.parse(row.entries) }
}

export async function lastKeyChange(tx: Tx, hash: string): Promise<Revocation | undefined> {
  const [row] = await tx.query<{ seq: number; version: number; revoked: boolean }>({
    name: 'keys_last_key_change',
    text: `select c.seq::float8 as seq, c.version, c.revoked from keys.last_key_change(decode($1, 'hex')) as c`,
    values: [hash],
  })
  return row === undefined ? undefined : { kind: 'key', hash, ...row }
}

/** Returns the last change of each key that the log still has. */
export async function lastKeyChanges(tx: Tx, hashes: readonly string[]): Promise<Revocation[]> {
  const rows = await tx.query<{ hash: string; seq: number; version: number; revoked: boolean }>({
    name: 'keys_last_key_changes',
    text: `
      select asked.hash, c.seq::float8 as seq, c.version, c.revoked
        from unnest($1::text[]) as asked (hash)
       cross join lateral keys.last_key_change(decode(asked.hash, 'hex')) as c
       order by seq`,
    values: [hashes],
  })
  return rows.map((row) => ({ kind: 'key', ...row }))
}

export async function readClock(tx: Tx): Promise<Date> {
  const [row] = await tx.query<{ now: Date }>({
    name: 'keys_read_clock',
    text: `select date_trunc('milliseconds', clock_timestamp()) as now`,
    values: [],
  })
  if (row === undefined) throw new Error('the select returned no row')
  return row.now
}

export async function lastTenantChange(tx: Tx, tenantId: string): Promise<Revocation | undefined> {
  const [row] = await tx.query<{ seq: number; version: number }>({
    name: 'keys_last_tenant_change',
    text: 'select c.seq::float8 as seq, c.version from keys.last_tenant_change($1) as c',
    values: [tenantId],
  })
  return row === undefined ? undefined : { kind: 'tenant', tenantId, ...row }
}

export interface PrunedLog {
  /** The last entry. */
  readonly seq: number
  readonly held: number
  /** Differs for each start of each PostgreSQL server. */
  readonly server: string
}

/**
 * Deletes up to `limit` of the oldest entries. Deletes nothing if the server differs from the one that returned the
 * number.
 */
export async function pruneLog(
  tx: Tx,
  { upTo, server, limit }: { upTo: number; server: string | undefined; limit: number },
): Promise<PrunedLog> {
  const [row] = await tx.query<{ seq: number; held: number; server: string }>({
    name: 'keys_prune_log',
    text: `
      select l.log_seq::float8 as seq, l.held::float8 as held, l.server::text as server
        from keys.prune_log($1, $2, $3) as l`,
    values: [upTo, server ?? null, limit],
  })
  if (row === undefined) throw new Error('the revocation log has no counter row')
  return row
}
