import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

/** Rows that somebody other than a connector is about to write; without keys, all of the scope. */
export interface PushedRows {
  readonly scope: string
  readonly keys: readonly string[] | undefined
}

// A row that is locked is being written by a run of a connector, which sees when it ends that there was a push meanwhile
// (`doubtOverlapped`): nobody waits for it here.
const doubt = (condition: string): string => `
  update sync.known_row k
  set hash = null
  from (
    select one.tenant_id, one.scope, one.source_key
    from sync.known_row one
    where one.scope = $1::text and one.hash is not null ${condition}
    for no key update skip locked
  ) as pushed
  where k.tenant_id = pushed.tenant_id and k.scope = pushed.scope and k.source_key = pushed.source_key`
// Served by known_row_pk.
const doubtKeys = statement('sync_doubt_pushed_keys', doubt('and one.source_key = any ($2::text[])'))
const doubtScope = statement('sync_doubt_pushed_scope', doubt(''))

/**
 * Notes that how these rows stand in the universe is not known to connectors any more: their next runs compare them again,
 * although the source says what it said before. To be committed after the push is on record, and before the universe is asked.
 */
export async function doubtPushedRows(tx: Tx, pushed: readonly PushedRows[]): Promise<void> {
  for (const { scope, keys } of pushed) {
    if (keys === undefined) await tx.execute(doubtScope([scope]))
    else if (keys.length > 0) await tx.execute(doubtKeys([scope, keys]))
  }
}
