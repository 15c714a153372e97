import { connect } from '@postern/tenant-db'
import type { TestDatabase } from './test-database.ts'

/** Makes a key look as old as this, used today for these routes, and assesses its health, as time and gateways would. */
export async function ageKey(
  { url }: Pick<TestDatabase, 'url'>,
  id: string,
  { days, routes = [] }: { readonly days: number; readonly routes?: readonly string[] },
): Promise<void> {
  await using connection = await connect(url('superuser'))
  const { client } = connection
  await client.query('begin')
  await client.query('set local session_replication_role = replica')
  await client.query(
    `update keys.api_key
        set created_at = created_at - $2 * interval '1 day',
            last_used_at = case when cardinality($3::text[]) > 0 then now() else last_used_at end
      where id = $1`,
    [id, days, routes],
  )
  await client.query(
    `insert into keys.api_key_use (tenant_id, key_id, day, route, requests)
     select k.tenant_id, k.id, (now() at time zone 'UTC')::date, r.route, 1
       from keys.api_key as k
      cross join unnest($2::text[]) as r (route)
      where k.id = $1
         on conflict do nothing`,
    [id, routes],
  )
  await client.query('select keys.assess_keys(k.tenant_id, array[k.id]) from keys.api_key as k where k.id = $1', [id])
  await client.query('commit')
}
