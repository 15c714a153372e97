import {
  type Connector,
  createConnector,
  deleteConnector,
  getConnector,
  listConnectors,
  safetySchema,
  updateConnector,
} from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import {
  type App,
  type ContractInput,
  assertIfMatch,
  contractRoute,
  internalRoute,
  patchRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import { z } from 'zod'
import type { Tx } from '@postern/tenant-db'
import { sqlError } from '../sql/store.ts'
import { recordAuditEvent } from '../audit/store.ts'
import type { Deps } from '../deps.ts'
import { configurationOf, etagOf } from '../etag.ts'
import { supersedeRuns } from '../run/store.ts'
import { allowWork, disallowWork } from '../granted-work/store.ts'
import { deleteEndedRuns } from '../run/delete-ended-runs.ts'
import { nextRun } from '../schedule/next-run.ts'
import { SealError, rewrapSecret, sealSecret } from '../secret/seal.ts'
import { type SealedSecret, resealSecrets } from '../secret/store.ts'
import { reservedKeys } from '../push/connector-store.ts'
import { findSecretsToSetAgain } from './destination.ts'
import { isPushed, keyFaults, setupFaults } from './rules.ts'
import {
  type ConnectorState,
  countConnectors,
  findConnector,
  insertConnector,
  retireConnector,
  selectConnectors,
  storeSecret,
  updateConnector as updateStored,
} from './store.ts'
import { runInProgress, withdrawSource } from './withdraw-source.ts'

const pageKey = z.string()

type Parts = Pick<Deps, 'db' | 'queue' | 'sources' | 'secretRing' | 'now' | 'universe'>

export function connectorRoutes(app: App, deps: Parts): void {
  const { db, queue, sources, secretRing, now } = deps
  listRoute(app, deps)

  contractRoute(app, createConnector, async (input) => {
    const { body, context, answer, storeRefusal } = input
    const setup = { ...body, given: { mapping: true, config: true }, secretNames: Object.keys(body.secrets) }
    refuse([...keyFaults(body.key), ...setupFaults(setup, sources, now())])
    if (reservedKeys.has(body.key)) throw takenProblem()
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
        await storeRefusal(tx, `The connector was already created: ${id}.`)
        await recordAuditEvent(tx, input, auditOf('created', { id, name: body.name }))
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

  const currentResource = {
    computed: ['consecutive_failures', 'last_run_at', 'next_run_at', 'updated_at'],
    read: async (input: Pick<ContractInput<typeof updateConnector>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const connector = await db.read(input.context, async (tx) => await findConnector(tx, input.params.id))
      if (connector === undefined) return undefined
      const confirm = (): void => {
        assertIfMatch(input, etagOf(connector), configurationOf)
        input.answer.etag(etagOf(connector))
      }
      return { resource: connector, confirm }
    },
  }
  patchRoute(app, updateConnector, currentResource, async (input) => {
    const { params, body, context, answer } = input
    const changed = await db.write(context, async (tx) => {
      const before = await findConnector(tx, params.id)
      if (before === undefined) throw problem('not_found')
      assertIfMatch(input, etagOf(before), configurationOf)
      if (isPushed(before)) {
        throw problem('conflict', { detail: 'This connector represents pushes and cannot be changed.' })
      }
      const next = {
        type: before.type,
        dataset: before.dataset,
        name: body.name ?? before.name,
        config: body.config ?? before.config,
        mapping: body.mapping ?? before.mapping,
        schedule: body.schedule === undefined ? before.schedule : body.schedule,
        missingPolicy: body.missing_policy ?? before.missing_policy,
        authoritative: body.authoritative ?? before.authoritative === true,
        safety: safetySchema.parse({ ...before.safety, ...body.safety }),
        state: body.state ?? before.state,
      }
      const secretNames = Object.keys(body.secrets ?? {})
      const given = { mapping: body.mapping !== undefined, config: body.config !== undefined }
      refuse(setupFaults({ ...next, given, secretNames }, sources, now()))
      const source = sources.get(before.type)
      const configs = { before: before.config, next: next.config }
      const secrets = { stored: Object.keys(before.secrets), given: secretNames }
      if (source !== undefined) refuse(findSecretsToSetAgain(source, configs, secrets))
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
      await recordAuditEvent(tx, input, auditOf('changed', { id: before.id, name: next.name }))
      return await present(tx, before.id)
    })
    answer.etag(etagOf(changed))
    return changed
  })

  contractRoute(app, deleteConnector, async ({ params, context, requestId, log }) => {
    const withdrawn = await withdrawSource(deps, { context, requestId, log }, params.id)
    let mayBeRetired = false
    try {
      const ended = await db.write(context, async (tx) => {
        const connector = await findConnector(tx, params.id)
        if (connector === undefined || isPushed(connector)) throw problem('not_found')
        // Before the check for a running run, so that a concurrent approval comes first or fails.
        const runIds = await supersedeRuns(tx, connector.id, 'the connector was retired')
        if (!(await retireConnector(tx, connector.id, withdrawn?.updateNumber))) throw runInProgress()
        await disallowWork(tx, connector.id)
        await recordAuditEvent(tx, { context, requestId }, auditOf('retired', connector))
        mayBeRetired = true
        return { connectorId: connector.id, runIds }
      })
      await deleteEndedRuns(deps, { context, requestId, log }, ended)
    } catch (error) {
      // If the database cannot say whether the connector was retired, the client repeats the request.
      const isThere = async (): Promise<boolean> =>
        (await db.read(context, async (tx) => await findConnector(tx, params.id))) !== undefined
      if (!mayBeRetired || (await isThere().catch(() => false))) await withdrawn?.undo()
      throw error
    }
    return undefined
  })

  // For the operator, between promoting a new key and retiring the old one.
  internalRoute(
    app,
    { method: 'POST', path: internalPaths.rewrapSecrets, signedBy: ['operator'], callers: ['operator'] },
    async ({ context }) => {
      const unreadable: { readonly connector: string; readonly name: string }[] = []
      const seal = (connectorId: string, { name, sealed }: SealedSecret): string | undefined => {
        try {
          return rewrapSecret(secretRing, { tenantId: context.tenantId, connectorId, name }, sealed)
        } catch (error) {
          if (!(error instanceof SealError)) throw error
          unreadable.push({ connector: connectorId, name })
          return undefined
        }
      }
      const rewrapped = await db.write(context, async (tx) => await resealSecrets(tx, seal))
      return { rewrapped, unreadable }
    },
  )
}

function listRoute(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listConnectors, {
    source: db,
    key: () => pageKey,
    asked: ({ query }) => query.key,
    list: async (tx, key, place) => await selectConnectors(tx, { key, ...place }),
    count: countConnectors,
    keyOf: ({ key }) => key,
    show: (connector) => connector,
  })
}

function auditOf(change: 'created' | 'changed' | 'retired', { id, name }: Pick<Connector, 'id' | 'name'>) {
  return { category: 'connector', action: `connector.${change}`, resource: { type: 'connector', id, name } } as const
}

async function present(tx: Tx, id: string): Promise<Connector> {
  const connector = await findConnector(tx, id)
  if (connector === undefined) throw new Error('the connector does not exist')
  return connector
}

function refuse(errors: ReturnType<typeof setupFaults>): void {
  if (errors.length > 0) throw problem('invalid_content', { errors })
}

function takenProblem() {
  return problem('conflict', { detail: 'Another connector has this key.' })
}

function refuseTakenKey(error: unknown): never {
  throw sqlError(error).constraint === 'connector_key_unique' ? takenProblem() : error
}
