import { type ApiKeyUsage, type RefusedRequest, usageDays } from '@postern/contracts'
import type { UsageReport } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

/** Ignores keys that do not exist in the tenant. */
export async function countRefusals(tx: Tx, refusals: NonNullable<UsageReport['refusals']>): Promise<void> {
  await tx.execute({
    name: 'keys_count_refusals',
    text: 'select keys.count_refusals($1), keys.review_refused($1)',
    values: [JSON.stringify(refusals)],
  })
}

/** Returns reasons and routes, most frequent first. Served by api_key_refusal_count_pk. */
export async function listReasonsOfRefusals(tx: Tx, keyId: string): Promise<ApiKeyUsage['refused']> {
  const rows = await tx.query<{ code: string; route: string | null; refusals: number; last_at: Date }>({
    name: 'keys_list_reasons_of_refusals',
    text: `
      select r.code, nullif(r.route, '') as route, sum(r.refusals)::float8 as refusals, max(r.last_at) as last_at
        from keys.api_key_refusal_count as r
       where r.key_id = $1
         and r.day > (clock_timestamp() at time zone 'UTC')::date - $2::int4
       group by r.code, r.route
       order by refusals desc, r.code, r.route`,
    values: [keyId, usageDays],
  })
  return rows.map(({ last_at: at, ...row }) => ({ ...row, last_refused_at: at.toISOString() }))
}

/** Counts refusals without an address. Served by api_key_refusal_count_pk. */
export async function countOtherRefusals(tx: Tx, keyId: string): Promise<number> {
  const [row] = await tx.query<{ refusals: number }>({
    name: 'keys_count_other_refusals',
    text: `
      select coalesce(sum(r.refusals), 0)::float8 as refusals
        from keys.api_key_refusal_count as r
       where r.key_id = $1
         and r.day > (clock_timestamp() at time zone 'UTC')::date - $2::int4
         and r.address = ''`,
    values: [keyId, usageDays],
  })
  return row?.refusals ?? 0
}

/** Returns at most 100 refusals, newest first. Served by api_key_refusal_pk. */
export async function listLastRefusals(tx: Tx, keyId: string): Promise<RefusedRequest[]> {
  const rows = await tx.query<Omit<RefusedRequest, 'at'> & { at: Date }>({
    name: 'keys_list_last_refusals',
    text: `
      select r.at, r.request_id, r.method, r.route, r.address, r.code
        from keys.api_key_refusal as r
       where r.key_id = $1
       order by r.at desc, r.request_id desc
       limit 100`,
    values: [keyId],
  })
  return rows.map(({ at, ...row }) => ({ at: at.toISOString(), ...row }))
}

/** Finds the last refusal of the key with this request id. Served by api_key_refusal_pk, among at most 100 rows. */
export async function findRefusal(tx: Tx, keyId: string, requestId: string): Promise<RefusedRequest | undefined> {
  return (await listLastRefusals(tx, keyId)).find(({ request_id: id }) => id === requestId)
}

/** Finds the address that used the key last. Served by api_key_address_pk, among at most 100 rows. */
export async function findLastAddress(tx: Tx, keyId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ address: string }>({
    name: 'keys_find_last_address',
    text: `
      select a.address
        from keys.api_key_address as a
       where a.key_id = $1
       order by a.last_used_at desc, a.address
       limit 1`,
    values: [keyId],
  })
  return row?.address
}
