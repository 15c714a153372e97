import {
  type Connector,
  createConnector,
  deleteConnector,
  getConnector,
  listConnectors,
  updateConnector,
} from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import {
  type App,
  type RequestInfo,
  allPages,
  assertIfMatch,
  contractList,
  contractRoute,
  internalRoute,
  openPage,
  problem,
  wordsOf,
} from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { allowWork, disallowWork, supersedeRuns } from '../run/store.ts'
import { UniverseUnavailable } from '../push/universe.ts'
import { nextRun } from '../schedule/next-run.ts'
import { beginTelling } from '../tell/store.ts'
import { rewrapSecret, sealSecret } from '../secret/seal.ts'
import { setupFaults } from './rules.ts'
import {
  type ConnectorState,
  type Tx,
  countConnectors,
  findConnector,
  hasRunUnderWay,
  insertConnector,
  resealSecrets,
  reservedKeys,
  retireConnector,
  selectConnectors,
  sqlError,
  storeSecret,
  updateConnector as updateStored,
} from './store.ts'

const pageKey = z.string()

type Parts = Pick<Deps, 'db' | 'queue' | 'sources' | 'secretRing' | 'now' | 'universe'>

/** Connectors: listed, set up, changed, retired. */
export function connectorRoutes(app: App, deps: Parts): void {
  const { db, queue, sources, secretRing, now } = deps
  listRoute(app, deps)

  contractRoute(app, createConnector, async ({ body, context, answer, keepRefusal }) => {
    const setup = { ...body, secretNames: Object.keys(body.secrets) }
    refuse(setupFaults(setup, sources, { now: now(), wordsOf }))
    if (reservedKeys.has(body.key)) throw taken()
    const due = body.schedule === null ? undefined : nextRun(body.schedule, now())
    const made = await db
      .write(context, async (tx) => {
        const id = crypto.randomUUID()
        await insertConnector(tx, id, body, due)
        for (const [name, value] of Object.entries(body.secrets)) {
          const place = { tenantId: context.tenantId, connectorId: id, name }
          await storeSecret(tx, id, name, sealSecret(secretRing, place, value))
        }
        if (due !== undefined) {
          await allowWork(tx, id)
          await queue.sendSchedule(tx, id, due)
        }
        await keepRefusal(tx, `The connector was made already: ${id}.`)
        return await present(tx, id)
      })
      .catch(refuseTakenKey)
    answer.header('location', `/api/v1/connectors/${made.id}`)
    answer.etag(etagOf(made))
    return made
  })

  contractRoute(app, getConnector, async ({ params, context, answer }) => {
    const connector = await db.read(context, async (tx) => await findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    answer.etag(etagOf(connector))
    return connector
  })

  contractRoute(app, updateConnector, async (input) => {
    const { params, body, context, answer } = input
    const changed = await db.write(context, async (tx) => {
      const before = await findConnector(tx, params.id)
      if (before === undefined) throw problem('not_found')
      assertIfMatch(input, etagOf(before))
      if (isPushed(before)) {
        throw problem('conflict', { detail: 'This connector stands for what is pushed. There is nothing to change.' })
      }
      const next = {
        type: before.type,
        dataset: before.dataset,
        name: body.name ?? before.name,
        config: body.config ?? before.config,
        mapping: body.mapping ?? before.mapping,
        schedule: body.schedule === undefined ? before.schedule : body.schedule,
        missingPolicy: body.missing_policy ?? before.missing_policy,
        safety: body.safety ?? before.safety,
        state: body.state ?? before.state,
      }
      const secretNames = Object.keys(body.secrets ?? {})
      refuse(setupFaults({ ...next, secretNames }, sources, { now: now(), wordsOf }))
      const due = next.schedule === null || next.state === 'paused' ? undefined : nextRun(next.schedule, now())
      const { type: _type, dataset: _dataset, ...state } = next
      const to: ConnectorState = { ...state, nextRunAt: due ?? null }
      if (!(await updateStored(tx, before.id, before.version, to))) {
        throw problem('precondition_failed', { detail: 'Read the connector again and repeat the change.' })
      }
      for (const [name, value] of Object.entries(body.secrets ?? {})) {
        const place = { tenantId: context.tenantId, connectorId: before.id, name }
        await storeSecret(tx, before.id, name, value === null ? null : sealSecret(secretRing, place, value))
      }
      if (due === undefined) await disallowWork(tx, before.id)
      else {
        await allowWork(tx, before.id)
        await queue.sendSchedule(tx, before.id, due)
      }
      return await present(tx, before.id)
    })
    answer.etag(etagOf(changed))
    return changed
  })

  contractRoute(app, deleteConnector, async ({ params, context, requestId }) => {
    await tellRetired(deps, { context, requestId }, params.id)
    await db.write(context, async (tx) => {
      const connector = await findConnector(tx, params.id)
      if (connector === undefined || isPushed(connector)) throw problem('not_found')
      // Before it is looked whether a run is under way: an approval at the same moment comes first, or too late.
      await supersedeRuns(tx, connector.id)
      if (!(await retireConnector(tx, connector.id))) throw busy()
      await disallowWork(tx, connector.id)
    })
    return undefined
  })

  // The operator, tenant by tenant: after a new key was promoted, and before the old one is retired.
  internalRoute(
    app,
    { method: 'POST', path: internalPaths.rewrapSecrets, signedBy: ['operator'], callers: ['operator'] },
    async ({ context }) => ({
      rewrapped: await db.write(
        context,
        async (tx) =>
          await resealSecrets(tx, (connectorId, { name, sealed }) =>
            rewrapSecret(secretRing, { tenantId: context.tenantId, connectorId, name }, sealed),
          ),
      ),
    }),
  )
}

/**
 * Has the universe take the connector for no source any more, before it is retired: nobody would tell it later. Where it is not retired
 * then, its next run tells otherwise.
 */
async function tellRetired(
  { db, universe }: Parts,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  address: string,
): Promise<void> {
  const begun = await db.write(context, async (tx) => {
    const connector = await findConnector(tx, address)
    if (connector?.dataset !== 'auditable_entities' || isPushed(connector)) return undefined
    if (await hasRunUnderWay(tx, connector.id)) throw busy()
    return { connectorId: connector.id, telling: await beginTelling(tx, connector.id) }
  })
  // One that has told nothing so far is no source.
  if (begun === undefined || begun.telling === 1) return
  const { connectorId, telling } = begun
  const { tenantId, assertion, label } = context
  const asker = { tenantId, assertion, runId: connectorId, connectorId, label, requestId }
  await universe.tellSources(asker, { telling, rows: [], read: null, retired: true }).catch((error: unknown) => {
    if (!(error instanceof UniverseUnavailable)) throw error
    const detail = 'The universe cannot be told that the connector is no source any more. Try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  })
}

function listRoute(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listConnectors, {
    page: async (input) => {
      const { context, query } = input
      const page = openPage(input, listConnectors, pageKey)
      const [connectors, total] = await db.read(context, async (tx) =>
        Promise.all([
          selectConnectors(tx, { key: query.key, after: page.after, limit: page.limit + 1 }),
          page.wantsTotal ? countConnectors(tx, query.key) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(connectors, (connector) => connector.key)
    },
    all: (input) => {
      const { context, query } = input
      const page = openPage(input, listConnectors, pageKey)
      return allPages(
        page.after,
        exportBatch,
        async (after, limit) =>
          await db.read(context, async (tx) => selectConnectors(tx, { key: query.key, after, limit })),
        (connector) => connector.key,
      )
    },
  })
}

/** Connectors that an export holds in memory at a time. */
const exportBatch = 500

export function etagOf({ id, version, last_run_at, next_run_at, state }: Connector): string {
  return `"${id}.${version}.${state}.${last_run_at ?? ''}.${next_run_at ?? ''}"`
}

function isPushed({ type }: Connector): boolean {
  return type === 'inline_json' || type === 'scim_inbound'
}

async function present(tx: Tx, id: string): Promise<Connector> {
  const connector = await findConnector(tx, id)
  if (connector === undefined) throw new Error('the connector is not there')
  return connector
}

function refuse(errors: ReturnType<typeof setupFaults>): void {
  if (errors.length > 0) throw problem('invalid_content', { detail: 'See `errors` for what to mend.', errors })
}

function busy() {
  return problem('run_in_progress', { detail: 'Cancel the run of the connector first.' })
}

function taken() {
  return problem('conflict', { detail: 'Another connector has this key.' })
}

function refuseTakenKey(error: unknown): never {
  throw sqlError(error).constraint === 'connector_key_unique' ? taken() : error
}
