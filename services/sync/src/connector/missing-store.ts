import type { MissingRow } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

// Served by known_row_missing.
const ofConnector = `
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text and k.missing_since is not null`
const selectMissing = statement(
  'sync_list_missing_of_connector',
  `select k.source_key, k.missing_since ${ofConnector} and k.source_key > $3::text order by k.source_key limit $4`,
)
const countMissing = statement('sync_count_missing_of_connector', `select count(*)::integer as total ${ofConnector}`)

/** Identifies the rows that a connector delivered. */
export interface Brought {
  readonly connectorId: string
  readonly dataset: MissingRow['dataset']
  readonly scope: string
}

/** Lists rows that were missing at the last read, by key, after `after`. */
export async function listMissingRows(
  tx: Tx,
  { connectorId, dataset, scope }: Brought,
  after: string | undefined,
  limit: number,
): Promise<MissingRow[]> {
  const rows = await tx.query<{ source_key: string; missing_since: Date }>(
    selectMissing([connectorId, scope, after ?? '', limit]),
  )
  return rows.map(({ source_key, missing_since }) => ({
    source_key,
    dataset,
    missing_since: missing_since.toISOString(),
  }))
}

export async function countMissingRows(tx: Tx, { connectorId, scope }: Brought): Promise<number> {
  const [row] = await tx.query<{ total: number }>(countMissing([connectorId, scope]))
  return row?.total ?? 0
}
