import type { Run, SafetyBreach } from '@postern/contracts'
import { type Tx, getRow, statement } from '@postern/tenant-db'
import { allowWork, disallowWork } from '../granted-work/store.ts'
import { type RowError, insertErrors } from './error-store.ts'
import type { Actor } from './rules.ts'

interface RunRow {
  readonly id: string
  readonly connector_id: string | null
  readonly connector_key: string | null
  readonly mode: Run['mode']
  readonly trigger: Run['trigger']
  readonly status: Run['status'] | 'running'
  readonly fetched_count: number
  readonly valid_count: number
  readonly invalid_count: number
  readonly created_count: number
  readonly updated_count: number
  readonly moved_count: number
  readonly reactivated_count: number
  readonly deactivated_count: number
  readonly unchanged_count: number
  readonly missing_count: number
  readonly applied_count: number
  readonly breaches: SafetyBreach[]
  readonly failure: string | null
  readonly failure_message: string | null
  readonly diff_hash: string | null
  readonly input_sha256: string | null
  readonly rollback_of: string | null
  readonly reason: string | null
  readonly attempt: number
  readonly created_by_type: Actor['type']
  readonly created_by_id: string
  readonly created_by_label: string
  readonly created_at: Date
  readonly started_at: Date | null
  readonly finished_at: Date | null
  readonly details_cleared_at: Date | null
  readonly revision: number
}

const columns = `
  r.id, r.connector_id, coalesce(c.retired_key, c.key) as connector_key, r.mode, r.trigger, r.status, r.fetched_count,
  r.valid_count, r.invalid_count, r.created_count, r.updated_count, r.moved_count, r.reactivated_count, r.deactivated_count,
  r.unchanged_count, r.missing_count, r.applied_count, r.breaches, r.failure, r.failure_message, r.diff_hash,
  r.input_sha256, r.rollback_of, r.reason, r.attempt, r.created_by_type, r.created_by_id, r.created_by_label,
  r.created_at, r.started_at, r.finished_at, r.details_cleared_at, r.revision`
const joined = `
  from sync.run r
  left join sync.connector c on c.tenant_id = r.tenant_id and c.id = r.connector_id`

const findRunById = statement('sync_find_run', `select ${columns} ${joined} where r.id = $1`)

export async function findRun(
  tx: Tx,
  id: string,
): Promise<{ readonly run: Run; readonly revision: number } | undefined> {
  const [row] = await tx.query<RunRow>(findRunById([id]))
  return row === undefined ? undefined : { run: toRun(row), revision: row.revision }
}

/** Throws if there is no such run. */
export async function getRun(tx: Tx, id: string): Promise<Run> {
  return toRun(getRow(await tx.query<RunRow>(findRunById([id]))))
}

// Includes runs of retired connectors with this key. A tenant has few connectors, so they are scanned once.
const isOfKey = `($1::text is null or r.connector_id = any (array(
      select o.id from sync.connector o where coalesce(o.retired_key, o.key) = $1
    )))`

// Newest first (UUIDv7). Served by the primary key, run_connector or run_by_status.
const selectRuns = statement(
  'sync_list_runs',
  `select ${columns} ${joined}
  where ${isOfKey}
    and ($2::text[] is null or r.status = any ($2))
    and ($3::uuid is null or r.id < $3)
  order by r.id desc
  limit $4`,
)

export interface RunFilter {
  readonly connector: string | undefined
  readonly statuses: readonly string[] | undefined
}

export async function listRuns(
  tx: Tx,
  { connector, statuses }: RunFilter,
  after: string | undefined,
  limit: number,
): Promise<Run[]> {
  const rows = await tx.query<RunRow>(selectRuns([connector ?? null, storedStatuses(statuses), after ?? null, limit]))
  return rows.map(toRun)
}

const countAllRuns = statement(
  'sync_count_runs',
  `select count(*)::integer as total ${joined}
  where ${isOfKey}
    and ($2::text[] is null or r.status = any ($2))`,
)

export async function countRuns(tx: Tx, { connector, statuses }: RunFilter): Promise<number> {
  return getRow(await tx.query<{ total: number }>(countAllRuns([connector ?? null, storedStatuses(statuses)]))).total
}

/** A running push counts as `applying`. */
function storedStatuses(statuses: readonly string[] | undefined): readonly string[] | null {
  if (statuses === undefined) return null
  return statuses.includes('applying') ? [...statuses, 'running'] : statuses
}

const insertConnectorRun = statement(
  'sync_insert_run',
  `insert into sync.run (
    tenant_id, connector_id, source, status, mode, trigger, upload_id, input_sha256, override_safety, reason, rollback_of,
    created_by_type, created_by_id, created_by_label, request_id, started_at
  )
  values ((select tenancy.tenant_id()), $1, 'connector', 'queued', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, null)
  returning id`,
)

export interface NewRun {
  readonly connectorId: string
  readonly mode: Run['mode']
  readonly trigger: Run['trigger']
  readonly uploadId?: string | undefined
  readonly inputSha256?: string | undefined
  readonly overrideSafety: boolean
  readonly reason?: string | undefined
  readonly rollbackOf?: string | undefined
  readonly actor: Actor
  readonly requestId: string
}

// A newer read of the source replaces an unfinished review. Served by run_connector.
const supersede = statement(
  'sync_supersede_runs',
  `update sync.run r
  set status = 'cancelled', finished_at = now(), revision = r.revision + 1
  where r.connector_id = $1 and r.status = 'needs_approval'
  returning r.id`,
)

/** Cancels the connector's run that waits for approval, because of what `happened`. Returns the ids of cancelled runs. */
export async function supersedeRuns(
  tx: Tx,
  connectorId: string,
  happened: 'another run of the connector has begun' | 'the connector was retired',
): Promise<string[]> {
  const superseded: RowError = {
    row: null,
    key: null,
    field: null,
    code: 'superseded',
    message: `${happened} before this one was approved, so this one cannot be approved any more`,
    excerpt: null,
    severity: 'warning',
  }
  const cancelled = await tx.query<{ id: string }>(supersede([connectorId]))
  for (const { id } of cancelled) {
    await disallowWork(tx, id)
    await insertErrors(tx, id, [superseded])
  }
  return cancelled.map(({ id }) => id)
}

// A concurrent retirement notices the run by `telling`.
const touchConnector = statement(
  'sync_touch_connector',
  'update sync.connector set last_run_at = now(), telling = telling + 1 where id = $1',
)

/** Inserts a run to be executed. Fails by `run_one_a_connector` if another one is in progress. */
export async function insertRun(tx: Tx, run: NewRun): Promise<string> {
  await supersedeRuns(tx, run.connectorId, 'another run of the connector has begun')
  const inserted = insertConnectorRun([
    run.connectorId,
    run.mode,
    run.trigger,
    run.uploadId ?? null,
    run.inputSha256 ?? null,
    run.overrideSafety,
    run.reason ?? null,
    run.rollbackOf ?? null,
    run.actor.type,
    run.actor.id,
    run.actor.label,
    run.requestId,
  ])
  const { id } = getRow(await tx.query<{ id: string }>(inserted))
  await allowWork(tx, id)
  await tx.execute(touchConnector([run.connectorId]))
  return id
}

const open = statement(
  'sync_find_open_run',
  `select r.status
  from sync.run r
  where r.connector_id = $1 and r.source = 'connector'
    and r.status in ('queued', 'fetching', 'validating', 'diffing', 'needs_approval', 'applying')
  order by r.id desc
  limit 1`,
)

/** Returns the run of the connector that is queued, in progress or waits for approval. */
export async function findOpenRun(tx: Tx, connectorId: string): Promise<'under_way' | 'needs_approval' | undefined> {
  const [row] = await tx.query<{ status: string }>(open([connectorId]))
  if (row === undefined) return undefined
  return row.status === 'needs_approval' ? 'needs_approval' : 'under_way'
}

const approve = statement(
  'sync_approve_run',
  `update sync.run r
  set status = 'applying', approved = true, holder = null, reason = coalesce($3, r.reason), revision = r.revision + 1
  where r.id = $1 and r.status = 'needs_approval' and r.diff_hash = $2`,
)

/** Approves exactly the changes with this hash. Returns false if the run does not wait for this approval. */
export async function approveRun(tx: Tx, id: string, diffHash: string, reason: string | undefined): Promise<boolean> {
  if ((await tx.execute(approve([id, diffHash, reason ?? null]))) === 0) return false
  // Revokes what the planning worker may still hold, because the new grant is for another worker.
  await disallowWork(tx, id)
  await allowWork(tx, id)
  return true
}

// No worker has it and nothing was sent to the universe: a queued or released run.
const isUnclaimed =
  "(r.status in ('queued', 'needs_approval') or r.holder is null and r.status in ('fetching', 'validating', 'diffing'))"
const cancelWaiting = statement(
  'sync_cancel_run',
  `update sync.run r
  set
    cancel_asked = true,
    status = case when ${isUnclaimed} then 'cancelled' else r.status end,
    finished_at = case when ${isUnclaimed} then now() end,
    revision = r.revision + 1
  where r.id = $1 and r.source = 'connector'
    and r.status in ('queued', 'fetching', 'validating', 'diffing', 'needs_approval', 'applying')
  returning r.status`,
)

/** Cancels a run without a worker, or asks its worker to stop. Undefined if it has ended. */
export async function cancelRun(tx: Tx, id: string): Promise<'cancelled' | 'asked' | undefined> {
  const [row] = await tx.query<{ status: string }>(cancelWaiting([id]))
  if (row?.status === 'cancelled') await disallowWork(tx, id)
  return row === undefined ? undefined : row.status === 'cancelled' ? 'cancelled' : 'asked'
}

function toRun(row: RunRow): Run {
  return {
    id: row.id,
    connector_id: row.connector_id,
    connector_key: row.connector_key,
    mode: row.mode,
    trigger: row.trigger,
    status: row.status === 'running' ? 'applying' : row.status,
    counts: {
      fetched: row.fetched_count,
      valid: row.valid_count,
      invalid: row.invalid_count,
      created: row.created_count,
      updated: row.updated_count,
      moved: row.moved_count,
      reactivated: row.reactivated_count,
      deactivated: row.deactivated_count,
      unchanged: row.unchanged_count,
      missing: row.missing_count,
      applied: row.applied_count,
    },
    breaches: row.breaches,
    failure:
      row.failure === null
        ? null
        : { code: row.failure, message: row.failure_message ?? 'The push failed. The response to it says why.' },
    diff_hash: row.diff_hash,
    input_sha256: row.input_sha256,
    rollback_of: row.rollback_of,
    reason: row.reason,
    attempt: row.attempt,
    created_by: { type: row.created_by_type, id: row.created_by_id, label: row.created_by_label },
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
    ...(row.details_cleared_at === null ? {} : { details_cleared_at: row.details_cleared_at.toISOString() }),
  }
}
