import { type PushedEntity, detailOf } from '@postern/contracts'
import {
  type ApplyImportAnswer,
  type ApplyImportBody,
  applyImportBodySchema,
  internalPaths,
  stopImportBodySchema,
} from '@postern/contracts/internal'
import { type App, ProblemError, type RequestInfo, internalRoute, problem } from '@postern/service-kit'
import { readByIndexes } from '../list/store.ts'
import { actorOf } from '../push/routes.ts'
import { asProblem } from '../push/tree-refusal.ts'
import { lockPeople } from '../push-people/store.ts'
import { applyChanges, areOfSingleNodes, batchLimits, contentsOf, maxNodes, rejectionsOf } from './apply.ts'
import {
  type PlannedRow,
  finishImport,
  listNextRows,
  listRejectedKeys,
  openSource,
  recordSourceRows,
  rejectRows,
  setAuthority,
} from './apply-store.ts'
import { type Imports, assertCurrentAttempt, bySync, write } from './requests.ts'
import { firstMissingSeq, parseScope } from './rules.ts'
import { type Import, type Tx, findImport, lockImport, recordBatch, stopImport } from './store.ts'

export function applyRoutes(app: App, deps: Imports): void {
  internalRoute(
    app,
    { ...bySync, path: internalPaths.applyImport, body: applyImportBodySchema },
    async ({ body, context, requestId, log }): Promise<ApplyImportAnswer> => {
      let sent: readonly PlannedRow[] = []
      const answer = await write(deps, context, async (tx) => {
        const found = await lockPlan(tx, body)
        await readByIndexes(tx)
        const { dataset } = parseScope(found.scope)
        if (dataset === 'people') await decideAccess(tx, found, body.authoritative === true)
        const rows = await listNextRows(tx, found, batchLimits[dataset])
        const batch = batchOf(rows, dataset)
        const last = batch.at(-1)
        if (last === undefined) return { ...(await finish(tx, found)), done: true, refused: null }
        if (dataset === 'org_structure' && !(await isWhole(tx, found, batch))) return tooLarge(found)
        sent = batch.filter(({ isChange }) => isChange)
        await openSource(tx, found.connectorId)
        const created = sent.length === 0 ? 0 : await applyChanges(tx, dataset, body, sent, actorOf(context))
        const range = { after: found.appliedSequence, last: last.seq }
        await recordSourceRows(tx, found, range, created === batch.length)
        const applied = await recordBatch(tx, body.run_id, { sequence: last.seq, changes: sent.length })
        return { applied, done: false, refused: null }
      }).catch(async (error: unknown) => await reject(deps, { body, context }, error, sent))
      log.info({ event: 'import_applied', request_id: requestId, run_id: body.run_id, ...answer })
      return answer
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.stopImport, body: stopImportBodySchema },
    async ({ body, context }) =>
      await write(deps, context, async (tx) => ({ applied: assertCurrentAttempt(await stopImport(tx, body)) })),
  )
}

async function lockPlan(tx: Tx, body: ApplyImportBody): Promise<Import> {
  const found = assertCurrentAttempt(await lockImport(tx, body))
  if (found.diffHash !== body.diff_hash)
    throw problem('conflict', { detail: 'The run has other changes than those with this hash.' })
  return found
}

/** The run changes nobody's access if the connector was changed since its plan. */
async function decideAccess(tx: Tx, found: Import, isAuthoritative: boolean): Promise<void> {
  if (found.isAuthoritative === isAuthoritative) await setAuthority(tx, found.connectorId, isAuthoritative)
  else await lockPeople(tx)
}

/**
 * Errors of other rows must not affect missing rows. Not for people: a new one can get the address of a missing one only in
 * one batch.
 */
function batchOf(rows: readonly PlannedRow[], dataset: keyof typeof batchLimits): readonly PlannedRow[] {
  if (dataset === 'people' || dataset === 'org_structure') return rows
  const missing = rows.findIndex(({ seq }) => seq >= firstMissingSeq)
  return missing > 0 ? rows.slice(0, missing) : rows
}

/** Returns whether the batch has all remaining changes of the hierarchy. */
async function isWhole(tx: Tx, found: Import, batch: readonly PlannedRow[]): Promise<boolean> {
  if (batch.filter(({ isChange }) => isChange).length > maxNodes) return false
  const rest = await listNextRows(tx, { ...found, appliedSequence: batch.at(-1)?.seq ?? 0 }, { rows: 1, bytes: 1 })
  return rest.length === 0
}

function tooLarge({ applied }: Import): ApplyImportAnswer {
  const message = `The run would change more than ${batchLimits.org_structure.bytes} bytes of a hierarchy, which is too much at once.`
  return { applied, done: false, refused: { code: 'too_large', message } }
}

async function finish(tx: Tx, found: Import): Promise<{ readonly applied: number }> {
  if (found.isWhole) await openSource(tx, found.connectorId)
  return await finishImport(tx, found)
}

/** Records rejected changes after their transaction was rolled back. Throws other errors. */
async function reject(
  deps: Imports,
  { body, context }: { readonly body: ApplyImportBody; readonly context: RequestInfo['context'] },
  error: unknown,
  sent: readonly PlannedRow[],
): Promise<ApplyImportAnswer> {
  const refusal = await asProblem(deps.importDb, context, error, () => contentsOf<PushedEntity>(sent))
  if (!(refusal instanceof ProblemError) || refusal.code !== 'invalid_content') throw refusal
  const rejections = rejectionsOf(refusal, sent)
  if (rejections === undefined) {
    const found = await write(deps, context, async (tx) => await findImport(tx, body.run_id))
    const message = detailOf(refusal.options) ?? 'The universe service rejected the changes.'
    return { applied: found?.applied ?? 0, done: false, refused: { code: 'refused', message } }
  }
  return await write(deps, context, async (tx) => {
    const found = await lockPlan(tx, body)
    await rejectRows(tx, body.run_id, rejections)
    const isShape =
      parseScope(found.scope).dataset === 'org_structure' &&
      !(await areOfSingleNodes(rejections, sent, async (keys) => await listRejectedKeys(tx, body.run_id, keys)))
    const message = 'The rows do not form a valid hierarchy, so nothing was changed. See the errors of the run.'
    return { applied: found.applied, done: false, refused: isShape ? { code: 'refused', message } : null }
  })
}
