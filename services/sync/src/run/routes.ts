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
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'
import { recordAuditEvent } from '../audit/store.ts'
import { isUploaded } from '../connector/rules.ts'
import { findConnector } from '../connector/store.ts'
import { sqlError } from '../sql/store.ts'
import type { Deps } from '../deps.ts'
import { digestOf } from '../digest.ts'
import { callUniverse, streamUniverse } from '../import/call-universe.ts'
import type { ImportCaller } from '../push/import-caller.ts'
import { assertMayBeTable } from '../upload/media-type.ts'
import { receiveUpload } from '../upload/receive.ts'
import { actionsOf } from './rules.ts'
import { deleteEndedRuns } from './delete-ended-runs.ts'
import { deleteAbandonedUploads, deleteUpload } from '../upload/store.ts'
import { actorOf } from './actor.ts'
import { countErrors, listErrors } from './error-store.ts'
import {
  type NewRun,
  type RunFilter,
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
        detail: 'Say why the run may exceed the limits of the connector.',
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
        if (upload !== undefined) {
          // A later run deletes the file if this fails.
          await db.write(context, async (tx) => await deleteUpload(tx, upload.id)).catch(() => undefined)
        }
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
    if (body !== undefined && (await hasContent(body))) {
      throw problem('invalid_content', {
        detail: 'The connector fetches its source. Send no body.',
        errors: [bodyError('must be empty, because the connector fetches its source', 'unknown')],
      })
    }
    if (announced !== undefined && announced !== sha256OfNothing) throw digestMismatch('sha-256')
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

const sha256OfNothing = hash('sha256', '')

/** Reads at most one part of an unexpected body, and discards the rest. */
async function hasContent(body: Readable): Promise<boolean> {
  try {
    for await (const part of body.iterator({ destroyOnReturn: false })) return Buffer.byteLength(part) > 0
    return false
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

async function auditOfApproval(tx: Tx, { id, connector_id: connectorId }: Pick<Run, 'id' | 'connector_id'>) {
  const connector = connectorId === null ? undefined : await findConnector(tx, connectorId)
  const resource = { type: 'sync_run', id, name: connector?.name ?? '' }
  return { category: 'connector', action: 'connector.run_approved', resource } as const
}

function decisionRoutes(app: App, deps: Parts): void {
  const { db, queue, universe } = deps
  contractRoute(app, approveRun, async ({ params, body, context, requestId, keep }) => {
    await assertNotStale(deps, { context, requestId }, params.id, body.diff_hash)
    const approved = await db
      .write(context, async (tx) => {
        const before = await requireRun(tx, params.id)
        if (before.status !== 'needs_approval')
          throw transitionProblem(before, 'Only a run that waits for approval can be approved.')
        if (!(await approveStored(tx, params.id, body.diff_hash, body.reason))) {
          throw problem('diff_stale', {
            detail: 'The run has other changes than those with this `diff_hash`. Read the run and review its changes.',
          })
        }
        await queue.sendRun(tx, context.tenantId, params.id)
        await recordAuditEvent(tx, { context, requestId }, await auditOfApproval(tx, before))
        return await keep(tx, await present(tx, params.id))
      })
      .catch(refuseSecondRun)
    queue.wake()
    return approved
  })

  contractRoute(app, cancelRun, async (input) => {
    const { params, context, keep } = input
    const { before, run } = await db.write(context, async (tx) => {
      const found = await requireRun(tx, params.id)
      if ((await cancelStored(tx, params.id)) === undefined) {
        throw transitionProblem(found, found.trigger === 'push' ? 'A push cannot be cancelled.' : 'The run has ended.')
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
      const before = await requireRun(tx, params.id)
      if (before.trigger === 'push')
        throw transitionProblem(before, 'A push cannot be undone. Push the rows with the values that they should have.')
      if (before.finished_at === null || before.counts.applied === 0 || before.connector_id === null) {
        throw transitionProblem(before, 'Only a run that has ended and applied changes can be undone.')
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
      throw problem('diff_stale', { detail: 'A later run changed the same rows. Undo that run first.' })
    }
    if (!left)
      throw problem('invalid_transition', { detail: 'The changes of the run were already undone.', allowed: [] })
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

/** Throws `diff_stale` if one of the first changes of a run is outdated. The worker checks all of them. */
async function assertNotStale(
  { db, universe }: Parts,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  runId: string,
  diffHash: string,
): Promise<void> {
  const run = await db.write(context, async (tx) => await requireRun(tx, runId))
  // The approving transaction reports other obstacles.
  if (run.status !== 'needs_approval' || run.diff_hash !== diffHash) return
  const caller = callerOfRequest(context, requestId, runId)
  if ((await callUniverse(async () => await universe.imports.check(caller, 0))).stale) {
    throw problem('diff_stale', {
      detail: 'The rows have changed since the run was reviewed. Run the connector again.',
    })
  }
}

async function requireRun(tx: Tx, id: string): Promise<Run> {
  const found = await findRun(tx, id)
  if (found === undefined) throw problem('not_found')
  return found.run
}

async function present(tx: Tx, id: string): Promise<Run> {
  const found = await findRun(tx, id)
  if (found === undefined) throw new Error('the run does not exist')
  return found.run
}

function transitionProblem(run: Run, detail: string) {
  return problem('invalid_transition', { detail: `${detail} This one is ${run.status}.`, allowed: actionsOf(run) })
}

function refuseSecondRun(error: unknown): never {
  if (sqlError(error).constraint === 'run_one_a_connector') {
    throw problem('run_in_progress', { detail: 'Another run of the connector is in progress.' })
  }
  throw error
}
