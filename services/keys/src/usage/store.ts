import { type ApiKeyUsage, usageDays } from '@postern/contracts'
import type { UsageReport } from '@postern/contracts/internal'
import { type Tx, sqlError } from '@postern/tenant-db'

/** Ignores keys that do not exist in the tenant. */
export async function recordUses(tx: Tx, uses: UsageReport['uses']): Promise<void> {
  // Requests beyond the sum of the routes were rejected.
  const refusals = uses.flatMap(({ tenantId, keyId, lastUsedAt: at, count, routes }) => {
    const accepted = Object.values(routes).reduce((sum, each) => sum + each, 0)
    return accepted < count ? [{ tenantId, keyId, at }] : []
  })
  await tx.execute({
    name: 'keys_record_uses',
    text: 'select keys.record_uses($1), keys.count_uses($1), keys.record_refusals($2)',
    values: [JSON.stringify(uses), JSON.stringify(refusals)],
  })
}

/** Records denials, with at most one audit event per key, reason and minute. */
export async function recordDenials(tx: Tx, denials: UsageReport['denials']): Promise<void> {
  await tx.execute({
    name: 'keys_record_denials',
    text: 'select keys.record_denials($1), keys.record_refusals($1)',
    values: [JSON.stringify(denials)],
  })
}

/** Whether PostgreSQL can never store the data (SQLSTATE classes 22 and 23). */
export function cannotBeStored(cause: unknown): boolean {
  return ['22', '23'].includes(sqlError(cause).sqlState?.slice(0, 2) ?? '')
}

/** Writes missing events for counted denials and returns their number. */
export async function notePendingDenials(tx: Tx, limit: number): Promise<number> {
  const [row] = await tx.query<{ noted: number }>({
    name: 'keys_note_pending_denials',
    text: 'select keys.note_pending_denials($1) as noted',
    values: [limit],
  })
  return row?.noted ?? 0
}

/** Deletes counts older than the usage API shows. */
export async function pruneUses(tx: Tx, limit: number): Promise<number> {
  const [row] = await tx.query<{ dropped: number }>({
    name: 'keys_prune_uses',
    text: 'select keys.prune_uses($1, $2) as dropped',
    values: [usageDays + 1, limit],
  })
  return row?.dropped ?? 0
}

/** Returns days oldest first, with zeros for unused ones. Served by api_key_use_pk. */
export async function listDaysOfUse(tx: Tx, keyId: string): Promise<ApiKeyUsage['days']> {
  return await tx.query<{ day: string; requests: number }>({
    name: 'keys_list_days_of_use',
    text: `
      with days as (
        select (clock_timestamp() at time zone 'UTC')::date - n as day
          from generate_series(0, $2::int4 - 1) as n)
      select to_char(d.day, 'YYYY-MM-DD') as day, coalesce(sum(u.requests), 0)::float8 as requests
        from days as d
        left join keys.api_key_use as u on u.key_id = $1 and u.day = d.day
       group by d.day
       order by d.day`,
    values: [keyId, usageDays],
  })
}

/** Returns routes, most used first. Served by api_key_use_pk. */
export async function listRoutesOfUse(tx: Tx, keyId: string): Promise<ApiKeyUsage['routes']> {
  return await tx.query<{ route: string; requests: number; last_used_on: string }>({
    name: 'keys_list_routes_of_use',
    text: `
      select u.route, sum(u.requests)::float8 as requests, to_char(max(u.day), 'YYYY-MM-DD') as last_used_on
        from keys.api_key_use as u
       where u.key_id = $1
         and u.day > (clock_timestamp() at time zone 'UTC')::date - $2::int4
       group by u.route
       order by requests desc, u.route`,
    values: [keyId, usageDays],
  })
}

/** Returns at most 100 addresses, newest first. Served by api_key_address_pk. */
export async function listAddressesOfUse(tx: Tx, keyId: string): Promise<ApiKeyUsage['addresses']> {
  const rows = await tx.query<{ address: string; first_used_at: Date; last_used_at: Date }>({
    name: 'keys_list_addresses_of_use',
    text: `
      select a.address, a.first_used_at, a.last_used_at
        from keys.api_key_address as a
       where a.key_id = $1
       order by a.first_used_at desc, a.last_used_at desc, a.address`,
    values: [keyId],
  })
  return rows.map(({ address, first_used_at: first, last_used_at: last }) => {
    return { address, first_used_at: first.toISOString(), last_used_at: last.toISOString() }
  })
}

/** Counts addresses replaced by newer ones. Served by api_key_address_drop_pk. */
export async function countDroppedAddresses(tx: Tx, keyId: string): Promise<number> {
  const [row] = await tx.query<{ dropped: number }>({
    name: 'keys_count_dropped_addresses',
    text: 'select d.dropped::float8 as dropped from keys.api_key_address_drop as d where d.key_id = $1',
    values: [keyId],
  })
  return row?.dropped ?? 0
}
