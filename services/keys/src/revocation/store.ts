import { type Revocation, revocationSchema } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'

/** A gateway that holds a lease, or held one in the last minute. */
export interface LeaseRow {
  readonly gateway: string
  /** It has applied the log up to here. */
  readonly acked: number
  readonly live: boolean
}

export interface LogReading {
  /** Where the log stood. */
  readonly seq: number
  /** The cursor could not be followed; the entries are those of the recent past. */
  readonly reset: boolean
  readonly entries: readonly Revocation[]
  /** Database clock, milliseconds since the epoch. */
  readonly now: number
}

/** Grants or renews a lease if the gateway has applied the whole log. Commit it before `readLog`. */
export async function renewLease(
  tx: Tx,
  { gateway, name, cursor, leaseMs }: { gateway: string; name: string; cursor: number; leaseMs: number },
): Promise<boolean> {
  const [row] = await tx.query<{ granted: boolean }>({
    name: 'keys_renew_lease',
    text: 'select keys.renew_lease($1, $2, $3, $4) as granted',
    values: [gateway, name, cursor, leaseMs],
  })
  return row?.granted === true
}

/** Ends the lease of a gateway that stops. */
export async function releaseLease(tx: Tx, gateway: string): Promise<void> {
  await tx.execute({ name: 'keys_release_lease', text: 'select keys.release_lease($1)', values: [gateway] })
}

/** Reads the leases; every call is a snapshot of its own. */
export async function readLeases(tx: Tx): Promise<LeaseRow[]> {
  return await tx.query<{ gateway: string; acked: number; live: boolean }>({
    name: 'keys_read_leases',
    text: 'select l.gateway, l.acked::float8 as acked, l.live from keys.read_leases() as l',
    values: [],
  })
}

const entriesSchema = z.array(revocationSchema)

/** Reads at most `limit` entries after the cursor (null: of the last `sinceMs`), the log's place and the clock in one snapshot. */
export async function readLog(
  tx: Tx,
  { cursor, sinceMs, limit }: { cursor: number | null; sinceMs: number; limit: number },
): Promise<LogReading> {
  const [row] = await tx.query<{ seq: number; reset: boolean; entries: unknown; now: number }>({
    name: 'keys_read_log',
    text: `
      select l.log_seq::float8 as seq, l.reset, l.entries, l.now_ms::float8 as now
        from keys.read_log($1, $2, $3) as l`,
    values: [cursor, sinceMs, limit],
  })
  if (row === undefined) throw new Error('the revocation log has no counter')
  return { seq: row.seq, reset: row.reset, entries: entriesSchema.parse(row.entries), now: row.now }
}

/** The key's last change in the log, or undefined when it has none or the log has dropped it. */
export async function lastKeyChange(tx: Tx, hash: string): Promise<Revocation | undefined> {
  const [row] = await tx.query<{ seq: number; version: number; revoked: boolean }>({
    name: 'keys_last_key_change',
    text: `select c.seq::float8 as seq, c.version, c.revoked from keys.last_key_change(decode($1, 'hex')) as c`,
    values: [hash],
  })
  return row === undefined ? undefined : { kind: 'key', hash, ...row }
}

/** The tenant's last change in the log, or undefined when it has none or the log has dropped it. */
export async function lastTenantChange(tx: Tx, tenantId: string): Promise<Revocation | undefined> {
  const [row] = await tx.query<{ seq: number; version: number }>({
    name: 'keys_last_tenant_change',
    text: 'select c.seq::float8 as seq, c.version from keys.last_tenant_change($1) as c',
    values: [tenantId],
  })
  return row === undefined ? undefined : { kind: 'tenant', tenantId, ...row }
}

/** Drops log entries older than `olderThanMs`, `limit` at most, and gateways long gone; gives the number of entries. */
export async function pruneLog(
  tx: Tx,
  { olderThanMs, limit }: { olderThanMs: number; limit: number },
): Promise<number> {
  const [row] = await tx.query<{ dropped: number }>({
    name: 'keys_prune',
    text: 'select keys.prune($1, $2) as dropped',
    values: [olderThanMs, limit],
  })
  return row?.dropped ?? 0
}
