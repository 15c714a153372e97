import { type Revocation, revocationSchema } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'

/** A gateway that holds a lease, or held one. */
export interface GrantRow {
  readonly gateway: string
  /** It has applied the log up to here. */
  readonly acked: number
  /** Another one with each grant: whether its lease was renewed. */
  readonly grant: string
  /** It has given its lease back, and was granted none since. */
  readonly released: boolean
}

export interface LogReading {
  /** Where the log stood. */
  readonly seq: number
  /** Of the log up to the last entry that was read, or to its end; null where nobody knows it any more. */
  readonly mark: string | null
  /** The cursor could not be followed; the entries are all that there are. */
  readonly reset: boolean
  readonly entries: readonly Revocation[]
  /** Database clock, milliseconds since the epoch. */
  readonly now: number
}

/** Grants or renews a lease if the gateway has applied the whole log, and it is this log. Commit it before `readLog`. */
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

/** Ends the lease of a gateway that stops. */
export async function releaseLease(tx: Tx, gateway: string): Promise<void> {
  await tx.execute({ name: 'keys_release_lease', text: 'select keys.release_lease($1)', values: [gateway] })
}

/** Reads who was granted leases; every call is a snapshot of its own. */
export async function readGrants(tx: Tx): Promise<GrantRow[]> {
  return await tx.query<{ gateway: string; acked: number; grant: string; released: boolean }>({
    name: 'keys_read_grants',
    text: `
      select g.gateway, g.acked::float8 as acked, g.grant_id as grant, g.released
        from keys.read_grants() as g`,
    values: [],
  })
}

/** Forgets gateways that were granted nothing since these rows were read. */
export async function forgetLeases(tx: Tx, gone: readonly Pick<GrantRow, 'gateway' | 'grant'>[]): Promise<void> {
  await tx.execute({
    name: 'keys_forget_leases',
    text: 'select keys.forget_leases($1, $2)',
    values: [gone.map(({ gateway }) => gateway), gone.map(({ grant }) => grant)],
  })
}

/** How many leases run, by the database's clock: for people. */
export async function countLeases(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ live: number }>({
    name: 'keys_count_leases',
    text: 'select count(*)::int4 as live from keys.read_leases() as l where l.live',
    values: [],
  })
  return row?.live ?? 0
}

const entriesSchema = z.array(revocationSchema)

/** Reads at most `limit` entries after the cursor (null: from the first on), the log's place and the clock in one snapshot. */
export async function readLog(
  tx: Tx,
  { cursor, mark, limit }: { cursor: number | null; mark: string | null; limit: number },
): Promise<LogReading> {
  const [row] = await tx.query<Omit<LogReading, 'entries'> & { entries: unknown; [column: string]: unknown }>({
    name: 'keys_read_log',
    text: `
      select l.log_seq::float8 as seq, l.mark, l.reset, l.entries, l.now_ms::float8 as now
        from keys.follow_log($1, $2, $3) as l`,
    values: [cursor, mark, limit],
  })
  if (row === undefined) throw new Error('the revocation log has no counter')
  return { ...row, entries: entriesSchema.parse(row.entries) }
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

/** The log as it was before some of it was dropped. */
export interface PrunedLog {
  /** Where it stood. */
  readonly seq: number
  /** How many entries it held. */
  readonly held: number
  /** Another one for each start of each server of PostgreSQL. */
  readonly server: string
}

/**
 * Drops log entries up to a number, the oldest first and `limit` at most; none where the server is another than the one on
 * which the number was seen.
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
  if (row === undefined) throw new Error('the revocation log has no counter')
  return row
}
