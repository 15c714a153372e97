import type { Run, RunCounts, SafetyBreach } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'

// A run may have 100,000 errors.
const allowLong = statement('sync_allow_long', `select set_config('statement_timeout', '120000', true)`)

export async function allowLongStatements(tx: Tx): Promise<void> {
  await tx.execute(allowLong([]))
}

export interface LeasedRun {
  readonly id: string
  readonly connectorId: string
  readonly mode: Run['mode']
  readonly status: Run['status']
  readonly uploadId: string | null
  readonly rollbackOf: string | null
  readonly overrideSafety: boolean
  readonly approved: boolean
  readonly diffHash: string | null
  readonly attempt: number
  /** When its first attempt began. */
  readonly startedAt: Date
  readonly counts: RunCounts
}

// From now on, the previous worker can write nothing.
const takeOver = statement(
  'sync_take_over',
  `update sync.run r
  set holder = $2, attempt = r.attempt + 1, started_at = coalesce(r.started_at, now()), revision = r.revision + 1
  where r.id = $1 and r.status in ('queued', 'fetching', 'validating', 'diffing', 'applying')
  returning r.id, r.connector_id as "connectorId", r.mode, r.status, r.upload_id as "uploadId",
    r.rollback_of as "rollbackOf", r.override_safety as "overrideSafety", r.approved, r.diff_hash as "diffHash", r.attempt, r.started_at as "startedAt",
    jsonb_build_object(
      'fetched', r.fetched_count, 'valid', r.valid_count, 'invalid', r.invalid_count, 'created', r.created_count,
      'updated', r.updated_count, 'moved', r.moved_count, 'reactivated', r.reactivated_count,
      'deactivated', r.deactivated_count, 'unchanged', r.unchanged_count, 'missing', r.missing_count,
      'applied', r.applied_count
    ) as counts`,
)

/** Takes over a run. Undefined if it has ended or waits for approval. */
export async function takeOverRun(tx: Tx, id: string, worker: string): Promise<LeasedRun | undefined> {
  const [row] = await tx.query<LeasedRun>(takeOver([id, worker]))
  return row
}

const release = statement(
  'sync_release_run',
  `update sync.run r
  set holder = null
  where r.id = $1 and r.holder = $2 and r.status in ('queued', 'fetching', 'validating', 'diffing')`,
)

/** Releases a run that has changed nothing. Returns false otherwise, or if another worker has it. */
export async function releaseRun(tx: Tx, id: string, worker: string): Promise<boolean> {
  return (await tx.execute(release([id, worker]))) > 0
}

export interface Progress {
  readonly status: Run['status']
  readonly counts: RunCounts
  readonly breaches?: readonly SafetyBreach[]
  readonly diffHash?: string
  readonly failure?: { readonly code: string; readonly message: string }
}

// The last statement of a worker's transactions, so that the row is locked briefly. A worker that has lost the run commits
// nothing.
const advance = statement(
  'sync_advance_run',
  `update sync.run r
  set
    status = $3, fetched_count = $4, valid_count = $5, invalid_count = $6, created_count = $7, updated_count = $8,
    moved_count = $9, reactivated_count = $10, deactivated_count = $11, unchanged_count = $12, missing_count = $13,
    applied_count = $14, breaches = coalesce($15::jsonb, r.breaches), diff_hash = coalesce($16, r.diff_hash),
    failure = $17, failure_message = $18,
    finished_at = case when $3::text in ('succeeded', 'partial', 'failed', 'cancelled') then coalesce(r.finished_at, now()) end,
    revision = r.revision + 1
  where r.id = $1 and r.holder = $2 and r.status in ('queued', 'fetching', 'validating', 'diffing', 'applying')
  returning r.cancel_asked`,
)

/** Records the progress of the worker's run. Returns 'lost' if it no longer has the run. */
export async function advanceRun(
  tx: Tx,
  id: string,
  worker: string,
  { status, counts, breaches, diffHash, failure }: Progress,
): Promise<'held' | 'cancel-asked' | 'lost'> {
  const [row] = await tx.query<{ cancel_asked: boolean }>(
    advance([
      id,
      worker,
      status,
      counts.fetched,
      counts.valid,
      counts.invalid,
      counts.created,
      counts.updated,
      counts.moved,
      counts.reactivated,
      counts.deactivated,
      counts.unchanged,
      counts.missing,
      counts.applied,
      breaches === undefined ? null : JSON.stringify(breaches),
      diffHash ?? null,
      failure?.code ?? null,
      failure?.message ?? null,
    ]),
  )
  if (row === undefined) return 'lost'
  return row.cancel_asked ? 'cancel-asked' : 'held'
}

const selectState = statement(
  'sync_look_at_run',
  `select r.cancel_asked
  from sync.run r
  where r.id = $1 and r.holder = $2 and r.status in ('queued', 'fetching', 'validating', 'diffing', 'applying')`,
)

/** Returns the state of the run for its worker. Writes nothing. */
export async function findRunState(tx: Tx, id: string, worker: string): Promise<'held' | 'cancel-asked' | 'lost'> {
  const [row] = await tx.query<{ cancel_asked: boolean }>(selectState([id, worker]))
  if (row === undefined) return 'lost'
  return row.cancel_asked ? 'cancel-asked' : 'held'
}

const succeed = statement(
  'sync_connector_succeeded',
  `update sync.connector c
  set consecutive_failures = 0, state = case when c.state = 'error' then 'active' else c.state end
  where c.id = $1 and (c.consecutive_failures > 0 or c.state = 'error')`,
)
const fail = statement(
  'sync_connector_failed',
  `update sync.connector c
  set
    consecutive_failures = c.consecutive_failures + 1,
    state = case when c.state = 'active' and c.consecutive_failures >= 4 then 'error' else c.state end
  where c.id = $1`,
)

/** What a run says about its connector: nothing if it was stopped or read no source. */
export type Outcome = 'works' | 'fails' | 'unknown'

/** Counts failures in a row; at the fifth the connector is in error. */
export async function recordOutcome(tx: Tx, connectorId: string, outcome: Outcome): Promise<void> {
  if (outcome !== 'unknown') await tx.execute(outcome === 'fails' ? fail([connectorId]) : succeed([connectorId]))
}
