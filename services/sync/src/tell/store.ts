// What the universe has not been told yet of where entities come from.
import type { EntitySourcesBody } from '@postern/contracts/internal'
import { type Comparison, type Tx, statement } from '../diff/store.ts'

const begin = statement(
  'sync_begin_telling',
  'update sync.connector c set telling = c.telling + 1 where c.id = $1::uuid returning c.telling',
)

/** The number of a new telling, above those of all before: who tells under a lower one has lost its run. */
export async function beginTelling(tx: Tx, connectorId: string): Promise<number> {
  const [row] = await tx.query<{ telling: number }>(begin([connectorId]))
  if (row === undefined) throw new Error('the connector of a run is there')
  return row.telling
}

// Served by known_row_untold.
const untold = statement(
  'sync_list_untold',
  `select k.source_key, k.missing_since
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = $2::text and not k.told and k.scope = 'auditable_entities'
  order by k.source_key
  limit $3`,
)

/** The next rows, by key, of which the universe has not been told how they stand. */
export async function listUntold(
  tx: Tx,
  { connectorId, scope }: Comparison,
  limit: number,
): Promise<EntitySourcesBody['rows']> {
  const rows = await tx.query<{ source_key: string; missing_since: Date | null }>(untold([connectorId, scope, limit]))
  return rows.map(({ source_key, missing_since }) => ({
    external_id: source_key,
    missing_since: missing_since?.toISOString() ?? null,
  }))
}

// Served by known_row_pk.
const markTold = statement(
  'sync_mark_told',
  `update sync.known_row k
  set told = true
  where k.connector_id = $1::uuid and k.scope = $2::text and k.source_key = any ($3::text[]) and not k.told`,
)

export async function noteTold(
  tx: Tx,
  { connectorId, scope }: Comparison,
  rows: EntitySourcesBody['rows'],
): Promise<void> {
  await tx.execute(markTold([connectorId, scope, rows.map(({ external_id: key }) => key)]))
}

const anyKeyless = statement(
  'sync_has_keyless',
  'select exists (select from sync.staged_row s where s.run_id = $1::uuid and s.source_key is null) as found',
)

/** Whether the run has met a row whose key cannot be read: it may be any of those that seem to be gone. */
export async function hasKeylessRows(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(anyKeyless([runId]))
  return row?.found === true
}
