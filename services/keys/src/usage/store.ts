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
    text: `
      select keys.record_uses($1), keys.review_new_routes($1), keys.count_uses($1), keys.count_addresses($1),
             keys.record_refusals($2)`,
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
export function canNeverBeStored(cause: unknown): boolean {
  return ['22', '23'].includes(sqlError(cause).sqlState?.slice(0, 2) ?? '')
}

/** Writes missing events for counted denials and returns their number. */
export async function recordPendingDenials(tx: Tx, limit: number): Promise<number> {
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
    text: 'select keys.prune_uses($1, $2) + keys.prune_refusals($1, $2) as dropped',
    values: [usageDays + 1, limit],
  })
  return row?.dropped ?? 0
}

/** Returns days oldest first, with zeros for unused ones. Served by api_key_use_pk and api_key_refusal_count_pk. */
export async function listDaysOfUse(tx: Tx, keyId: string): Promise<ApiKeyUsage['days']> {
  return await tx.query<{ day: string; requests: number; refusals: number }>({
    name: 'keys_list_days_of_use',
    text: `
      with days as (
        select (clock_timestamp() at time zone 'UTC')::date - n as day
          from generate_series(0, $2::int4 - 1) as n)
      select to_char(d.day, 'YYYY-MM-DD') as day,
             coalesce((select sum(u.requests) from keys.api_key_use as u where u.key_id = $1 and u.day = d.day), 0)::float8
               as requests,
             coalesce((
               select sum(r.refusals) from keys.api_key_refusal_count as r where r.key_id = $1 and r.day = d.day), 0)::float8
               as refusals
        from days as d
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

/**
 * Returns at most 100 used addresses and 100 others with the latest refusals, newest first. Served by
 * api_key_address_pk, api_key_address_use_pk and api_key_refusal_count_pk.
 */
export async function listAddressesOfUse(tx: Tx, keyId: string): Promise<ApiKeyUsage['addresses']> {
  const rows = await tx.query<{
    address: string
    first_at: Date
    last_at: Date
    requests: number
    refusals: number
  }>({
    name: 'keys_list_addresses_of_use',
    text: `
      with first_day as (
        select (clock_timestamp() at time zone 'UTC')::date - $2::int4 + 1 as day),
      used as (
        select u.address, sum(u.requests) as requests
          from keys.api_key_address_use as u
         where u.key_id = $1
           and u.day >= (select day from first_day)
         group by u.address),
      refused as (
        select r.address, sum(r.refusals) as refusals, min(r.first_at) as first_at, max(r.last_at) as last_at
          from keys.api_key_refusal_count as r
         where r.key_id = $1
           and r.day >= (select day from first_day)
           and r.address <> ''
         group by r.address),
      only_refused as (
        select r.address, r.first_at, r.last_at
          from refused as r
         where not exists (select from keys.api_key_address as a where a.key_id = $1 and a.address = r.address)
         order by r.last_at desc, r.address
         limit 100),
      seen as (
        select a.address, a.first_used_at as first_at, a.last_used_at as last_at
          from keys.api_key_address as a
         where a.key_id = $1
         union all
        select o.address, o.first_at, o.last_at from only_refused as o)
      select s.address, least(s.first_at, r.first_at) as first_at, greatest(s.last_at, r.last_at) as last_at,
             coalesce(u.requests, 0)::float8 as requests, coalesce(r.refusals, 0)::float8 as refusals
        from seen as s
        left join used as u on u.address = s.address
        left join refused as r on r.address = s.address
       order by first_at desc, last_at desc, s.address`,
    values: [keyId, usageDays],
  })
  return rows.map(({ address, first_at: first, last_at: last, requests, refusals }) => {
    return {
      address,
      first_used_at: first.toISOString(),
      last_used_at: last.toISOString(),
      requests,
      refusals,
    }
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
