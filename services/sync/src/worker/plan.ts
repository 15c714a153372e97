import { type Connector, type SafetyBreach, maxPushedNodes } from '@postern/contracts'
import type { ImportPlan, RollbackPlan } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { datasetRules } from '../dataset/rules.ts'
import type { Imports } from '../import/imports.ts'
import { type RowError, countErrorsLeft, insertErrors } from '../run/error-store.ts'
import { breachesOf, lossBreachesOf } from '../run/rules.ts'
import { findRun } from '../run/store.ts'
import { type RunLease, RunRefusedError } from './run-lease.ts'
import type { StagedCounts } from './read-source.ts'
import { recordOutcome } from './store.ts'

/**
 * Compares the staged rows. `hashes`: known hashes, or null if all rows were sent. Undefined: read the source again without
 * hashes.
 */
export async function compare(
  lease: RunLease,
  imports: Imports,
  hashes: number | null,
): Promise<ImportPlan | undefined> {
  await lease.commitStep(async () => ({ status: 'validating' }))
  for (let after = 0; ;) {
    const { missing_policy, authoritative } = lease.connector
    const body = { after, hashes, missing_policy, ...(authoritative === true && { authoritative }) }
    const answer = await imports.plan(await lease.importAttempt(), body)
    switch (answer.state) {
      case 'read_again':
        return undefined
      case 'planned':
        return answer
      case 'comparing':
        ;({ after } = answer)
        await lease.commitStep(async () => ({ status: 'diffing' }))
        break
      default:
        return answer satisfies never
    }
  }
}

/** Lists the universe's errors as far as the run keeps them: of staged rows, or with `applying` of planned changes. */
export async function listErrors(lease: RunLease, imports: Imports, applying: boolean): Promise<RowError[]> {
  const errors: RowError[] = []
  const maxErrors = await lease.read(async (tx) => await countErrorsLeft(tx, lease.run.id))
  for (let after: number | null = 0; after !== null && errors.length < maxErrors;) {
    const page = await imports.errors(await lease.caller(), after, applying)
    errors.push(...page.errors.map(({ seq: _seq, ...error }) => error))
    after = page.after
  }
  return errors.slice(0, maxErrors)
}

/** Decides whether a plan is applied, only shown, or needs approval. */
export async function decidePlan(
  lease: RunLease,
  imports: Imports,
  plan: ImportPlan,
  { fetched, unsent }: StagedCounts,
): Promise<void> {
  const { connector, run } = lease
  const { missing_policy: policy, safety } = connector
  const {
    created,
    updated,
    moved,
    reactivated,
    deactivated,
    known,
    lately_missing: lately,
    gone,
    drafts,
    keyless,
    locked_out: lockedOut,
  } = plan
  const changed = updated + moved + reactivated + deactivated
  assertInOneBatch(connector, created + changed)
  const valid = unsent + plan.valid
  const missing = policy === 'ignore' ? 0 : plan.missing
  const breaches = breachesOf(safety, policy, {
    valid,
    known,
    missing: policy === 'ignore' ? 0 : lately,
    deactivated,
    lockedOut: lockedOut?.total ?? 0,
    changed,
  })
  const status = statusAfterPlan(run.mode === 'dry_run', breaches.length > 0 && !run.overrideSafety)
  const { keyField, statusField } = datasetRules[connector.dataset]
  const errors = plan.invalid === 0 ? [] : await listErrors(lease, imports, false)
  await lease.commitStep(async (tx) => {
    await insertErrors(tx, run.id, [
      ...errors,
      ...plan.lost_fields.map(fieldLostWarning),
      ...(status === 'applying' ? [] : plan.flagged.map(rowMissingWarning)),
      ...(status === 'applying' ? [] : (lockedOut?.keys ?? []).map(accessEndsWarning)),
      ...(keyless > 0 && missing > 0 ? [keylessRowsError(keyless, keyField)] : []),
      ...(drafts > 0 ? [draftsRemainError(drafts, statusField)] : []),
    ])
    if (status !== 'applying') await recordOutcome(tx, connector.id, 'works')
    const unchanged = Math.max(0, valid - created - (changed - gone))
    const counts = { fetched, valid, invalid: plan.invalid, created, updated, moved, reactivated, deactivated, missing }
    return { status, counts: { ...counts, unchanged }, breaches, diffHash: plan.diff_hash }
  })
}

function rowMissingWarning(key: string): RowError {
  const message = 'The source no longer has this row. The run will list it as missing.'
  return { row: null, key, field: null, code: 'row_missing', message, excerpt: null, severity: 'warning' }
}

function accessEndsWarning(key: string): RowError {
  const message = 'This person is inactive and loses access, because the connector decides about it.'
  return { row: null, key, field: 'active', code: 'access_ends', message, excerpt: null, severity: 'warning' }
}

/** Rows without a readable key could be any of the missing rows. */
function keylessRowsError(keyless: number, field: string): RowError {
  const message = `${keyless} rows have no readable key, so no row was marked missing. Fix those rows.`
  return { row: null, key: null, field, code: 'missing_undecided', message, excerpt: null }
}

/** A missing or renamed column empties its field. */
function fieldLostWarning({ field, rows }: ImportPlan['lost_fields'][number]): RowError {
  const message = `No row has this field, but ${rows} had it before. If its column was renamed, update the mapping.`
  return { row: null, key: null, field, code: 'field_gone', message, excerpt: null, severity: 'warning' }
}

function draftsRemainError(drafts: number, field: string | null): RowError {
  const message = `${drafts} rows that the source no longer has are drafts. Drafts cannot become inactive, so they did not change.`
  return { row: null, key: null, field, code: 'draft_stays', message, excerpt: null }
}

function statusAfterPlan(isDryRun: boolean, isBroken: boolean): 'succeeded' | 'needs_approval' | 'applying' {
  if (isDryRun) return 'succeeded'
  return isBroken ? 'needs_approval' : 'applying'
}

/** A hierarchy changes in one transaction. */
function assertInOneBatch({ dataset }: Connector, changes: number): void {
  if (dataset !== 'org_structure' || changes <= maxPushedNodes) return
  throw new RunRefusedError(
    'too_many_nodes',
    `The run would change ${changes} nodes of a hierarchy, and ${maxPushedNodes} can be changed at once.`,
  )
}

export async function planRollback(lease: RunLease, imports: Imports, rollbackOf: string): Promise<void> {
  const { run, connector } = lease
  let stay = 0
  await lease.commitStep(async () => ({}))
  for (let below: number | null | undefined = undefined; below !== null;) {
    const body = { read_at: run.startedAt.toISOString(), rollback_of: rollbackOf, below }
    const plan: RollbackPlan = await imports.planRollback(await lease.importAttempt(), connector, body)
    stay += plan.stay
    below = plan.below
    const { created, updated, moved, reactivated, deactivated, diff_hash: diffHash } = plan
    const isLast = below === null
    await lease.commitStep(async (tx) => {
      if (!isLast) return {}
      if (stay > 0) await insertErrors(tx, run.id, [notUndoneError(stay, connector)])
      const breaches = await breachesOfRollback(tx, connector, rollbackOf, deactivated)
      const status = breaches.length > 0 ? 'needs_approval' : 'applying'
      return { status, diffHash, breaches, counts: { created, updated, moved, reactivated, deactivated } }
    })
  }
}

/** Only the limits that guard the access of people: a run is undone because of its other changes. */
async function breachesOfRollback(
  tx: Tx,
  { dataset, safety }: Connector,
  rollbackOf: string,
  deactivated: number,
): Promise<SafetyBreach[]> {
  if (dataset !== 'people') return []
  const undone = (await findRun(tx, rollbackOf))?.run.counts
  return lossBreachesOf(safety, deactivated, Math.max(undone?.valid ?? 0, undone?.applied ?? 0))
}

/** What a rollback cannot undo is reported like a rejected row. */
function notUndoneError(rows: number, { dataset }: Connector): RowError {
  const { statusField: field, draft } = datasetRules[dataset]
  const what =
    draft === null
      ? 'were made by the run, and cannot become inactive'
      : 'were made as drafts by the run, or are drafts no longer since: no draft becomes inactive, and nothing becomes a draft again'
  return { row: null, key: null, field, code: 'not_undone', message: `${rows} rows ${what}. They stay`, excerpt: null }
}
