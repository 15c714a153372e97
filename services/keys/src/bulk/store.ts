import type { Tx } from '@postern/tenant-db'

export interface RecentUse {
  readonly isRecent: boolean
  /** Newest first, at most five. */
  readonly addresses: readonly string[]
}

/** Returns how keys were used in the last 24 hours, by id. Served by api_key_pk and api_key_address_pk. */
export async function findRecentUse(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, RecentUse>> {
  const rows = await tx.query<{ id: string; is_recent: boolean; addresses: string[] }>({
    name: 'keys_find_recent_use',
    text: `
      select k.id, coalesce(k.last_used_at > clock_timestamp() - interval '24 hours', false) as is_recent,
             array(
               select a.address
                 from keys.api_key_address as a
                where a.tenant_id = k.tenant_id
                  and a.key_id = k.id
                  and a.last_used_at > clock_timestamp() - interval '24 hours'
                order by a.last_used_at desc, a.address
                limit 5) as addresses
        from keys.api_key as k
       where k.id = any ($1::uuid[])`,
    values: [ids],
  })
  return new Map(rows.map(({ id, is_recent: isRecent, addresses }) => [id, { isRecent, addresses }]))
}
