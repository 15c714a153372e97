// What the universe has not been told yet of where entities come from. What it was told of a row is kept in `told_connector_id` and
// `told_missing_since`, beside how the row stands: where the two differ it is to be told.
import { statement } from '@postern/tenant-db'
import type { EntitySourcesBody } from '@postern/contracts/internal'
import { type Comparison, type Tx, isMissing } from '../diff/store.ts'

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

/** Rows of a telling, and the versions of them that were told. */
export interface Untold {
  readonly rows: EntitySourcesBody['rows']
  readonly versions: readonly string[]
}

// Served by known_row_untold, whose condition this is. What another connector brings, as the universe knows, and its source has,
// stays that one's.
const untold = statement(
  'sync_list_untold',
  `select k.source_key, k.missing_since, k.xmin::text as version
  from sync.known_row k
  where k.connector_id = $1::uuid and k.scope = 'auditable_entities' and case
    when k.told_connector_id is null then true
    when k.told_connector_id = k.connector_id then k.told_missing_since is distinct from k.missing_since
    else k.told_missing_since is not null and k.missing_since is null
  end
  order by k.source_key
  limit $2`,
)

/** The next rows, by key, of which the universe has not been told how they stand. */
export async function listUntold(tx: Tx, { connectorId }: Comparison, limit: number): Promise<Untold> {
  const rows = await tx.query<{ source_key: string; missing_since: Date | null; version: string }>(
    untold([connectorId, limit]),
  )
  return {
    rows: rows.map(({ source_key, missing_since }) => ({
      external_id: source_key,
      missing_since: missing_since?.toISOString() ?? null,
    })),
    versions: [...new Set(rows.map(({ version }) => version))],
  }
}

// What was written since it was listed, by another connector's run, stands otherwise by now, and the universe may have heard of both
// in either order: then nobody knows what it was told. That run finds a push that it overlaps by its own number, which is written
// over here: what it has learned is compared again. No later transaction has the number of one that was seen before.
// Served by known_row_pk.
const markTold = statement(
  'sync_mark_told',
  `update sync.known_row k
  set
    told_connector_id = case when k.xmin::text = any ($3::text[]) then k.connector_id end,
    told_missing_since = case when k.xmin::text = any ($3::text[]) then k.missing_since end,
    hash = case when k.xmin::text = any ($3::text[]) then k.hash end,
    run_id = $2::uuid
  where k.scope = $1::text and k.source_key = any ($4::text[])`,
)

/** Notes what the universe was told. What is pushed while this holds the rows is found by `doubtOverlapped`. */
export async function noteTold(tx: Tx, { runId, scope }: Comparison, { rows, versions }: Untold): Promise<void> {
  await tx.execute(markTold([scope, runId, versions, rows.map(({ external_id: key }) => key)]))
}

// Served by known_row_shared. The run that has brought them may not have ended yet: as above. A row whose key cannot be read may be any of those that seem to be gone.
const release = statement(
  'sync_release_shared',
  `update sync.known_row k
  set told_connector_id = null, told_missing_since = null, hash = null, run_id = $3::uuid
  where k.told_connector_id = $1::uuid and k.scope = $2::text
    and k.scope = 'auditable_entities' and k.told_connector_id <> k.connector_id ${isMissing}
    and not exists (select from sync.staged_row s where s.run_id = $3::uuid and s.source_key is null)`,
)

/** Leaves what the source has no longer, and another connector has brought since, to that one: its next run tells so. */
export async function releaseShared(tx: Tx, { runId, scope, connectorId }: Comparison): Promise<void> {
  await tx.execute(release([connectorId, scope, runId]))
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
