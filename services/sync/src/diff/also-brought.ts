// Rows that more than one connector brings: the known row names who has read it last, sync.also_brought the others. A trigger keeps who
// had it before, whoever takes it over.
import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

/** SQL: who else brings the known row `k`, as of when its source was last read; null where nobody does. Served by also_brought_pk. */
const nextOwner = `(
    select o.connector_id
    from sync.also_brought o
    where o.scope = k.scope and o.source_key = k.source_key and o.connector_id <> k.connector_id
    order by o.connector_id
    limit 1
  )`

/** SQL: that no other connector brings the known row `k`. */
export const isNobodyElses = `not exists (
      select
      from sync.also_brought o
      where o.scope = k.scope and o.source_key = k.source_key and o.connector_id <> k.connector_id
    )`

/**
 * SQL: makes the known rows `k` of a connector, a parameter, those of who else brings them, whose next runs compare them and tell whose
 * they are. Where nobody does they stay.
 */
export const passOn = (connector: string): string => `
    connector_id = coalesce(${nextOwner}, k.connector_id),
    told_connector_id = case when ${isNobodyElses} then k.told_connector_id
      else nullif(k.told_connector_id, ${connector}::uuid) end,
    told_missing_since = case when ${isNobodyElses} or k.told_connector_id is distinct from ${connector}::uuid
      then k.told_missing_since end`

const anyShared = statement(
  'sync_is_anything_shared',
  'select exists (select from sync.also_brought o where o.scope = $1::text) as found',
)

/** Whether any row of the scope is brought by more than one connector. */
export async function isAnythingShared(tx: Tx, scope: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(anyShared([scope]))
  return row?.found === true
}
