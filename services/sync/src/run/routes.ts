import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import {
  type Connector,
  type Run,
  approveRun,
  cancelRun,
  getRun,
  listRunChanges,
  listRunErrors,
  listRuns,
  rollbackRun,
  startRun,
  uuidSchema,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  type RequestInfo,
  parseSha256,
  bodyError,
  contractList,
  contractRoute,
  digestMismatch,
  discardRest,
  openPage,
  problem,
  storedList,
} from '@postern/service-kit'
import { z } from 'zod'
import { recordAuditEvent } from '../audit/store.ts'
import { isUploaded } from '../connector/rules.ts'
import { findConnector, sqlError } from '../connector/store.ts'
import type { Deps } from '../deps.ts'
import { digestOf } from '../digest.ts'
import { callUniverse, streamUniverse } from '../import/call-universe.ts'
import type { ImportCaller } from '../push/import-caller.ts'
import { assertMayBeTable } from '../upload/media-type.ts'
import { receiveUpload } from '../upload/receive.ts'
import { movesOf } from './rules.ts'
import { deleteEndedRuns } from './delete-ended-runs.ts'
import { deleteAbandonedUploads, deleteUpload } from '../upload/store.ts'
import { actorOf } from './actor.ts'
import { countErrors, listErrors } from './error-store.ts'
import {
  type NewRun,
  type RunFilter,
  type Tx,
  approveRun as approveStored,
  cancelRun as cancelStored,
  countRuns,
  findRun,
  insertRun,
  listRuns as listStored,
} from './store.ts'

type Parts = Pick<Deps, 'db' | 'queue' | 'universe'>

export function runRoutes(app: App, deps: Parts): void {
  startRoute(app, deps)
  readRoutes(app, deps)
  decisionRoutes(app, deps)
}

function startRoute(app: App, { db, queue }: Parts): void {
  contractRoute(app, startRun, async ({ params, query, context, requestId, raw, answer, keep }) => {
    const overrideSafety = query.override_safety === 'true'
    if (overrideSafety && query.reason === undefined) {
      throw problem('bad_request', {
        detail: 'Say why the limits are to be passed over.',
        errors: [{ parameter: 'reason', code: 'missing', detail: 'must be given with override_safety' }],
      })
    }
    const connector = await db.read(context, async (tx) => await findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    assertRunnable(connector)
    if (isUploaded(connector.type, connector.config)) assertMayBeTable(raw.headers['content-type'])
    const announced = parseSha256(raw.headers['content-digest'])
    const body = raw.body instanceof Readable ? raw.body : undefined
    const upload = await receiveFile(db, context, connector, { body, announced })
    const run: NewRun = {
      connectorId: connector.id,
      mode: query.mode,
      trigger: upload === undefined ? 'api' : 'upload',
      uploadId: upload?.id,
      inputSha256: upload?.sha256,
      overrideSafety,
      reason: query.reason,
      rollbackOf: undefined,
      actor: actorOf(context),
      requestId,
    }
    const started = await db
      .write(context, async (tx) => {
        await deleteAbandonedUploads(tx)
        const id = await insertRun(tx, run)
        await queue.sendRun(tx, context.tenantId, id)
        answer.header('location', `/api/v1/sync-runs/${id}`)
        return await keep(tx, await present(tx, id))
      })
      .catch(async (error: unknown) => {
        if (upload !== undefined) await db.write(context, async (tx) => await deleteUpload(tx, upload.id))
        return refuseSecondRun(error)
      })
    queue.wake()
    return started
  })
}

async function receiveFile(
  db: Parts['db'],
  context: RequestInfo['context'],
  connector: Connector,
  { body, announced }: { readonly body: Readable | undefined; readonly announced: string | undefined },
): Promise<Awaited<ReturnType<typeof receiveUpload>> | undefined> {
  const isFile = isUploaded(connector.type, connector.config)
  if (!isFile) {
    const extra = body === undefined ? 0 : await countAndDrop(body)
    if (extra > 0) {
      throw problem('invalid_content', {
        detail: 'The connector fetches its source: send no body.',
        errors: [bodyError('is not taken: the connector fetches its source', 'unknown')],
      })
    }
    if (announced !== undefined && announced !== ofNothing) throw digestMismatch('sha-256')
    return undefined
  }
  const upload = body === undefined ? undefined : await receiveUpload(db, context, body, announced)
  if (upload === undefined || upload.bytes === 0) {
    throw problem('invalid_content', {
      detail: 'Send the file to be read as the body of the request.',
      errors: [bodyError('is missing', 'required')],
    })
  }
  return upload
}

const ofNothing = hash('sha256', '')

/** Reads at most one byte of an unexpected body. */
async function countAndDrop(body: Readable): Promise<number> {
  try {
    for await (const part of body.iterator({ destroyOnReturn: false })) return Buffer.byteLength(part)
    return 0
  } finally {
    void discardRest(body)
  }
}

function assertRunnable(connector: Connector): void {
  if (connector.type === 'inline_json' || connector.type === 'scim_inbound') {
    throw problem('conflict', { detail: 'This connector represents pushes and cannot be run.' })
  }
  if (connector.state === 'paused') throw problem('conflict', { detail: 'The connector is paused.' })
}

function readRoutes(app: App, { db, universe }: Pick<Parts, 'db' | 'universe'>): void {
  storedList(app, listRuns, {
    source: db,
    key: () => uuidSchema,
    asked: ({ query }): RunFilter => ({ connector: query.connector, statuses: query.status }),
    list: async (tx, filter, { after, limit }) => await listStored(tx, filter, after, limit),
    count: countRuns,
    keyOf: ({ id }) => id,
    show: (run) => run,
  })

  contractRoute(app, getRun, async ({ params, context, answer }) => {
    const found = await db.read(context, async (tx) => await findRun(tx, params.id))
    if (found === undefined) throw problem('not_found')
    // Not the revision, because the response also contains its connector.
    answer.etag(`"${params.id}.${digestOf(found.run)}"`)
    return found.run
  })

  const callerOfRun = async ({
    params,
    context,
    requestId,
  }: ContractInput<typeof listRunChanges>): Promise<ImportCaller> => {
    const isThere = await db.read(context, async (tx) => await hasRun(tx, params.id))
    if (!isThere) throw problem('not_found')
    return callerOfRequest(context, requestId, params.id)
  }
  contractList(app, listRunChanges, {
    page: async (input) => {
      const page = openPage(input, listRunChanges, seqKey)
      const caller = await callerOfRun(input)
      const body = {
        after: page.after ?? 0,
        limit: page.limit + 1,
        ops: input.query.op ?? null,
        count: page.wantsTotal,
      }
      const { changes, after, total } = await callUniverse(async () => await universe.imports.changes(caller, body))
      if (total !== null) page.total(total)
      return page.finish(changes, ({ seq }) => seq, after ?? undefined)
    },
    all: async function* (input) {
      const page = openPage(input, listRunChanges, seqKey)
      const body = { after: page.after ?? 0, ops: input.query.op ?? null }
      yield* streamUniverse(universe.imports.exportChanges(await callerOfRun(input), body))
    },
  })

  storedList(app, listRunErrors, {
    source: db,
    key: () => seqKey,
    asked: ({ params }) => ({ id: params.id }),
    isThere: async (tx, { id }) => await hasRun(tx, id),
    list: async (tx, { id }, { after, limit }) => await listErrors(tx, id, after, limit),
    count: async (tx, { id }) => await countErrors(tx, id),
    keyOf: ({ seq }) => seq,
    show: (error) => error,
  })
}

async function hasRun(tx: Tx, id: string): Promise<boolean> {
  return (await findRun(tx, id)) !== undefined
}

const seqKey = z.int().min(0).max(2_147_483_647)

function callerOfRequest(
  { tenantId, assertion, label }: RequestInfo['context'],
  requestId: string,
  runId: string,
): ImportCaller {
  return { tenantId, assertion, runId, label, requestId }
}

async function approvalOf(tx: Tx, { id, connector_id: connectorId }: Pick<Run, 'id' | 'connector_id'>) {
  const connector = connectorId === null ? undefined : await findConnector(tx, connectorId)
  const resource = { type: 'sync_run', id, name: connector?.name ?? '' }
  return { category: 'connector', action: 'connector.run_approved', resource } as const
}

function decisionRoutes(app: App, deps: Parts): void {
  const { db, queue, universe } = deps
  contractRoute(app, approveRun, async ({ params, body, context, requestId, keep }) => {
    await assertAsReviewed(deps, { context, requestId }, params.id, body.diff_hash)
    const approved = await db
      .write(context, async (tx) => {
        const before = await presentOrNot(tx, params.id)
        if (before.status !== 'needs_approval')
          throw transitionProblem(before, 'Only a run that waits for approval is approved.')
        if (!(await approveStored(tx, params.id, body.diff_hash, body.reason))) {
          throw problem('diff_stale', { detail: 'The changes of the run are not those with this diff_hash.' })
        }
        await queue.sendRun(tx, context.tenantId, params.id)
        await recordAuditEvent(tx, { context, requestId }, await approvalOf(tx, before))
        return await keep(tx, await present(tx, params.id))
      })
      .catch(refuseSecondRun)
    queue.wake()
    return approved
  })

  contractRoute(app, cancelRun, async (input) => {
    const { params, context, keep } = input
    const { before, run } = await db.write(context, async (tx) => {
      const found = await presentOrNot(tx, params.id)
      if ((await cancelStored(tx, params.id)) === undefined) {
        throw transitionProblem(found, found.trigger === 'push' ? 'A push is not cancelled.' : 'The run has ended.')
      }
      return { before: found, run: await keep(tx, await present(tx, params.id)) }
    })
    if (run.status === 'cancelled' && before.connector_id !== null) {
      await deleteEndedRuns(deps, input, { connectorId: before.connector_id, runIds: [run.id] })
    }
    return run
  })

  contractRoute(app, rollbackRun, async ({ params, body, context, requestId, answer, keep }) => {
    const found = async (tx: Tx) => {
      const before = await presentOrNot(tx, params.id)
      if (before.trigger === 'push')
        throw transitionProblem(before, 'A push is not undone: push the rows as they are to be.')
      if (before.finished_at === null || before.counts.applied === 0 || before.connector_id === null) {
        throw transitionProblem(before, 'Only a run that has ended and has applied something can be undone.')
      }
      const connector = await findConnector(tx, before.connector_id)
      if (connector === undefined)
        throw problem('invalid_transition', { detail: 'The connector is retired.', allowed: [] })
      return { id: before.id, connector }
    }
    const { connector } = await db.write(context, found)
    const caller = callerOfRequest(context, requestId, params.id)
    const { changed, left } = await callUniverse(async () => await universe.imports.undoable(caller, connector.dataset))
    if (changed) {
      throw problem('diff_stale', { detail: 'A later run has changed what this run had changed. Undo that one first.' })
    }
    if (!left)
      throw problem('invalid_transition', { detail: 'What the run had changed is undone already.', allowed: [] })
    const begun = await db
      .write(context, async (tx) => {
        const before = await found(tx)
        const id = await insertRun(tx, {
          connectorId: before.connector.id,
          mode: 'rollback',
          trigger: 'api',
          uploadId: undefined,
          inputSha256: undefined,
          overrideSafety: false,
          reason: body?.reason,
          rollbackOf: before.id,
          actor: actorOf(context),
          requestId,
        })
        await queue.sendRun(tx, context.tenantId, id)
        answer.header('location', `/api/v1/sync-runs/${id}`)
        return await keep(tx, await present(tx, id))
      })
      .catch(refuseSecondRun)
    queue.wake()
    return begun
  })
}

/** Throws `diff_stale` if the first changes of a run are outdated. The worker checks all of them. */
async function assertAsReviewed(
  { db, universe }: Parts,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  runId: string,
  diffHash: string,
): Promise<void> {
  const run = await db.write(context, async (tx) => await presentOrNot(tx, runId))
  // The approving transaction reports other obstacles.
  if (run.status !== 'needs_approval' || run.diff_hash !== diffHash) return
  const caller = callerOfRequest(context, requestId, runId)
  if ((await callUniverse(async () => await universe.imports.check(caller, 0))).stale) {
    throw problem('diff_stale', {
      detail: 'What the run would change has changed since it was reviewed. Run the connector again.',
    })
  }
}

async function presentOrNot(tx: Tx, id: string): Promise<Run> {
  const found = await findRun(tx, id)
  if (found === undefined) throw problem('not_found')
  return found.run
}

async function present(tx: Tx, id: string): Promise<Run> {
  const found = await findRun(tx, id)
  if (found === undefined) throw new Error('the run is not there')
  return found.run
}

function transitionProblem(run: Run, detail: string) {
  return problem('invalid_transition', { detail: `${detail} This one is ${run.status}.`, allowed: movesOf(run) })
}

/** The database enforces that a connector has one run at a time. */
function refuseSecondRun(error: unknown): never {
  if (sqlError(error).constraint === 'run_one_a_connector') {
    throw problem('run_in_progress', { detail: 'Another run of the connector is under way.' })
  }
  throw error
}
