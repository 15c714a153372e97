import {
  beginImportBodySchema,
  checkImportBodySchema,
  importHashesBodySchema,
  importRowsBodySchema,
  internalPaths,
  planImportBodySchema,
  planRollbackBodySchema,
  undoableBodySchema,
  type PlanImportAnswer,
  type PlanImportBody,
  type RollbackPlan,
} from '@postern/contracts/internal'
import { type App, internalRoute, problem } from '@postern/service-kit'
import { findLockedOut } from './access-store.ts'
import { checkChanges } from './check-store.ts'
import { assertContents } from './contents.ts'
import { planMissingRows } from './missing-store.ts'
import { compareRows, hasLostHashes, isBaselineStale } from './plan-store.ts'
import { rejectInvalidRows } from './reject-store.ts'
import { type Imports, assertCurrentAttempt, bySync, inLongTransaction, maxRowsBytes, write } from './requests.ts'
import { findUndoable, planInverse } from './rollback-store.ts'
import { parseScope, scopeOf } from './rules.ts'
import { countGone, countSourceRows, listHashes, stageGone, stageRows, deleteStaged } from './stage-store.ts'
import {
  type Import,
  type Tx,
  clearImports,
  findImport,
  listUnclearedImports,
  lockImport,
  openImport,
  recordPlan,
} from './store.ts'
import { countPresent, findFlagged, listLostFields, sha256Of, summarizeChanges } from './summary-store.ts'

export function planRoutes(app: App, deps: Imports): void {
  internalRoute(
    app,
    { ...bySync, path: internalPaths.beginImport, body: beginImportBodySchema },
    inLongTransaction(deps, async (tx, { body, context }) => {
      const about = {
        connectorId: context.id,
        scope: scopeOf(body.dataset, body.hierarchy),
        readAt: body.read_at,
        rollbackOf: null,
      }
      const opened = assertCurrentAttempt(await openImport(tx, body, about))
      await deleteStaged(tx, body.run_id)
      // Cleans up after a crash. The next run removes the rest.
      const ended = await listUnclearedImports(tx, context.id, body.run_id)
      if (ended.length > 0) await clearImports(tx, ended, false)
      return { known: await countSourceRows(tx, opened) }
    }),
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.importHashes, body: importHashesBodySchema },
    inLongTransaction(deps, async (tx, { body }) => {
      const { hashes, last } = await listHashes(tx, assertCurrentAttempt(await lockImport(tx, body)), body.after)
      return { hashes: hashes.toString('base64'), last: last ?? null }
    }),
  )

  internalRoute(
    app,
    {
      ...bySync,
      path: internalPaths.importRows,
      body: importRowsBodySchema,
      maxBodyBytes: maxRowsBytes,
      isOurJson: true,
    },
    async ({ body, context }) => {
      await write(deps, context, async (tx) => {
        const found = assertCurrentAttempt(await lockImport(tx, body))
        if (found.diffHash !== null)
          throw problem('conflict', { detail: 'The changes of the run are planned already.' })
        assertContents(parseScope(found.scope).dataset, body.rows)
        await stageRows(tx, body.run_id, body.rows)
        if (body.gone !== undefined) await stageGone(tx, found, Buffer.from(body.gone, 'base64'))
      })
      return {}
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.planImport, body: planImportBodySchema },
    inLongTransaction(deps, async (tx, { body }): Promise<PlanImportAnswer> => {
      const found = assertCurrentAttempt(await lockImport(tx, body))
      if (body.after === 0) {
        if (body.hashes !== null && (await isBaselineStale(tx, found, body.hashes))) return { state: 'read_again' }
        await rejectInvalidRows(tx, found)
      }
      const last = await compareRows(tx, found, body.after)
      return last === undefined ? await finishPlan(tx, found, body) : { state: 'comparing', after: last }
    }),
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.planRollback, body: planRollbackBodySchema },
    inLongTransaction(deps, async (tx, { body, context }): Promise<RollbackPlan> => {
      const about = {
        connectorId: context.id,
        scope: scopeOf(body.dataset, body.hierarchy),
        readAt: body.read_at,
        rollbackOf: body.rollback_of,
      }
      const opened = assertCurrentAttempt(await openImport(tx, body, about))
      if (body.below === undefined) await deleteStaged(tx, body.run_id)
      const { below, stay } = await planInverse(tx, opened, body.below ?? 2_147_483_647)
      const { diff_hash, created, updated, moved, reactivated, deactivated } = await summarizeChanges(tx, body.run_id)
      if (below === undefined)
        await recordPlan(tx, body.run_id, { diffHash: diff_hash, isWhole: false, isAuthoritative: null })
      return { below: below ?? null, stay, diff_hash, created, updated, moved, reactivated, deactivated }
    }),
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.undoable, body: undoableBodySchema },
    inLongTransaction(deps, async (tx, { body }) => {
      return await findUndoable(tx, body.run_id, body.dataset)
    }),
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.checkImport, body: checkImportBodySchema },
    inLongTransaction(deps, async (tx, { body }) => {
      const found = await findImport(tx, body.run_id)
      if (found === undefined) throw problem('conflict', { detail: 'The run has no planned changes.' })
      return await checkChanges(tx, found, body.after)
    }),
  )
}

async function finishPlan(
  tx: Tx,
  found: Import,
  { hashes, missing_policy: policy, authoritative }: PlanImportBody,
): Promise<PlanImportAnswer> {
  const isComplete = hashes === null || (await countGone(tx, found.runId)) === hashes
  const missing = await planMissingRows(tx, found, { isComplete, policy })
  if (hashes !== null && (await hasLostHashes(tx, found, hashes))) return { state: 'read_again' }
  const { diff_hash: changes, ...counts } = await summarizeChanges(tx, found.runId)
  const flagged = policy === 'flag' ? await findFlagged(tx, found.runId) : undefined
  const access = authoritative === true ? await findLockedOut(tx, found) : undefined
  const hashed = [flagged?.hash, access?.hash].filter((hash) => hash !== undefined)
  const diffHash = hashed.length === 0 ? changes : sha256Of(changes, ...hashed)
  const isAuthoritative = access !== undefined
  await recordPlan(tx, found.runId, { diffHash, isWhole: missing.keyless === 0, isAuthoritative })
  return {
    state: 'planned',
    diff_hash: diffHash,
    ...counts,
    ...missing,
    known: await countPresent(tx, found),
    flagged: [...(flagged?.keys ?? [])],
    lost_fields: isComplete ? await listLostFields(tx, found) : [],
    ...(access !== undefined && { locked_out: access.lockedOut }),
  }
}
