import { type ApiKeyEvent, apiKeyEventSchema } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'

interface EventRow {
  readonly id: string
  readonly at: Date
  readonly actor_type: string | null
  readonly actor_id: string | null
  readonly actor_label: string | null
}

/** Lists events after the id `after`, newest first. Served by api_key_event_of_key. */
export async function listEvents(
  tx: Tx,
  keyId: string,
  page: { readonly after: string | undefined; readonly limit: number },
): Promise<ApiKeyEvent[]> {
  const rows = await tx.query<EventRow>({
    name: 'keys_list_events',
    text: `
      select e.id, e.type, e.at, e.actor_type, e.actor_id, e.actor_label, e.address, e.detail
        from keys.api_key_event as e
       where e.key_id = $1
         and ($2::uuid is null or e.id < $2)
       order by e.id desc
       limit $3`,
    values: [keyId, page.after ?? null, page.limit],
  })
  return rows.map(({ at, actor_type: type, actor_id: id, actor_label: label, ...event }) =>
    apiKeyEventSchema.parse({ ...event, at: at.toISOString(), actor: type === null ? null : { type, id, label } }),
  )
}

export async function countEvents(tx: Tx, keyId: string): Promise<number> {
  const [row] = await tx.query<{ count: number }>({
    name: 'keys_count_events',
    text: 'select count(*)::float8 as count from keys.api_key_event as e where e.key_id = $1',
    values: [keyId],
  })
  return row?.count ?? 0
}

export async function hasKey(tx: Tx, keyId: string): Promise<boolean> {
  const rows = await tx.query({
    name: 'keys_has_key',
    text: 'select k.id from keys.api_key as k where k.id = $1',
    values: [keyId],
  })
  return rows.length === 1
}
