import type { Tx } from '@postern/tenant-db'

export interface ScopeUse {
  readonly scopes: readonly string[]
  /** Since when uses are counted by route, at most 30 days ago. */
  readonly countedFrom: Date
  /** Whether the uses of 30 days are counted. */
  readonly isComplete: boolean
  /** Named scopes that opened no route that was used. */
  readonly unneeded: readonly string[]
}

/** Served by api_key_pk and api_key_use_pk. */
export async function findScopeUse(tx: Tx, keyId: string): Promise<ScopeUse | undefined> {
  const [row] = await tx.query<{ scopes: string[]; counted_from: Date; is_complete: boolean; unneeded: string[] }>({
    name: 'keys_find_scope_use',
    text: `
      with facts as (
        select k.scopes, clock_timestamp() - interval '30 days' as first_at, greatest(k.created_at, w.counted_from) as since,
               keys.list_unneeded_scopes(k.tenant_id, k.id, k.scopes) as unneeded
          from keys.api_key as k
         cross join keys.usage_watch as w
         where k.id = $1)
      select f.scopes, greatest(f.since, f.first_at) as counted_from, f.since <= f.first_at as is_complete, f.unneeded
        from facts as f`,
    values: [keyId],
  })
  return row === undefined
    ? undefined
    : { scopes: row.scopes, countedFrom: row.counted_from, isComplete: row.is_complete, unneeded: row.unneeded }
}

/** Publishes which scopes open each route, for functions of the database. */
export async function setRoutes(
  tx: Tx,
  routes: readonly { readonly id: string; readonly scopes: readonly string[] }[],
): Promise<void> {
  await tx.execute({
    name: 'keys_set_routes',
    text: 'select keys.set_routes($1)',
    values: [JSON.stringify(routes)],
  })
}

/** Records that uses are being counted. A gap, for example after restoring a backup, makes earlier counts incomplete. */
export async function watchUsage(tx: Tx): Promise<void> {
  await tx.execute({ name: 'keys_watch_usage', text: 'select keys.watch_usage()', values: [] })
}
