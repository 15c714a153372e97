import { randomUUID } from 'node:crypto'
import { type Connector, type Run, connectorSchema, runErrorSchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { parseKeyRing } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { type Universe, openUniverse } from '../src/push/universe.ts'
import type { Attempt } from '../src/queue/queue.ts'
import { sourceTypes } from '../src/source/index.ts'
import { defaultLimits } from '../src/source/limits.ts'
import { type WorkerParts, carryOut } from '../src/worker/carry-out.ts'
import { makeWorld } from './support.ts'

interface Parts {
  readonly world: Awaited<ReturnType<typeof makeWorld>>
  readonly process: Awaited<ReturnType<Awaited<ReturnType<typeof makeWorld>>['spawnUniverse']>>
  readonly caller: SignedCaller
  readonly workerDb: TenantDb
  readonly universe: Universe
}

/** Services that only answer requests; the tests execute the runs. Each test file calls it. */
export function useRuns() {
  let parts: Parts
  let close: () => Promise<void>
  beforeAll(async () => {
    const world = await makeWorld()
    const process = await world.spawnUniverse()
    const sync = await world.startSync(process.url, { POSTERN_SYNC_WORKERS: '0' })
    const workerDb = openTenantDb({
      connectionString: world.database.url('sync'),
      maxConnections: 4,
      connectTimeoutMs: 60_000,
      queryTimeoutMs: 130_000,
      applicationName: 'sync-test-worker',
    })
    const ring = parseKeyRing(world.rings.syncUniverse)
    const universe = openUniverse({ url: process.url, ring, timeoutMs: 60_000 })
    parts = { world, process, caller: world.syncCaller(sync.url), workerDb, universe }
    close = async () => {
      await universe.close()
      await workerDb.close()
      await sync.close()
      await process.stop()
      await world.close()
    }
  })
  afterAll(async () => await close())

  function workerParts(other: Partial<WorkerParts> = {}): WorkerParts {
    const { world, workerDb, universe } = parts
    return {
      workerDb,
      universe,
      sources: sourceTypes,
      outbound: openOutbound({ networks: [] }),
      limits: defaultLimits,
      secretRing: parseKeyRing(world.rings.secrets),
      logger: createLogger({ service: 'sync', level: 'silent' }),
      pausesMs: [],
      clearWithinMs: 600_000,
      ended: () => undefined,
      ...other,
    }
  }

  /** Executes a run as a worker does. */
  async function work(run: Run, other: Partial<WorkerParts> = {}, attempt: Partial<Attempt> = {}): Promise<void> {
    await carryOut(workerParts(other), run.id, { signal: new AbortController().signal, isLast: false, ...attempt })
  }

  async function create(tenant: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
    const all = { max_change_pct: 100, max_deactivate_pct: 100, max_deactivate: 1000 }
    const body = { key: `c-${randomUUID()}`, name: 'Table', type: 'csv', dataset: 'auditable_entities', safety: all }
    const answer = await parts.caller.call(tenant, 'POST', '/api/v1/connectors', { body: { ...body, ...fields } })
    return connectorSchema.parse(answer.json)
  }

  async function start(tenant: Principal, { id }: Connector, csv: string | Buffer, query = ''): Promise<Run> {
    const upload = { body: csv, headers: { 'content-type': 'text/csv' } }
    const answer = await parts.caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs${query}`, upload)
    return runSchema.parse(answer.json)
  }

  async function now(tenant: Principal, { id }: Run): Promise<Run> {
    return runSchema.parse((await parts.caller.call(tenant, 'GET', `/api/v1/sync-runs/${id}`)).json)
  }

  async function runCsv(tenant: Principal, connector: Connector, csv: string, query = ''): Promise<Run> {
    const run = await start(tenant, connector, csv, query)
    await work(run)
    return await now(tenant, run)
  }

  async function decide(tenant: Principal, { id }: Run, decision: string, body?: object): Promise<number> {
    return (await parts.caller.call(tenant, 'POST', `/api/v1/sync-runs/${id}/${decision}`, { body })).status
  }

  async function names(tenant: Principal): Promise<string[]> {
    const text = `select name || ' ' || status as name from universe.entity where tenant_id = $1 order by external_id`
    return (await parts.world.rows(text, [tenant.tenantId])).map(({ name }) => String(name))
  }

  async function undo(tenant: Principal, { id }: Run): Promise<Run> {
    return runSchema.parse(
      (await parts.caller.call(tenant, 'POST', `/api/v1/sync-runs/${id}/rollback`, { body: {} })).json,
    )
  }

  async function errorsOf(tenant: Principal, { id }: Run) {
    return runErrorSchema.array().parse((await parts.caller.call(tenant, 'GET', `/api/v1/sync-runs/${id}/errors`)).json)
  }

  return { parts: () => parts, workerParts, work, create, start, now, runCsv, decide, names, undo, errorsOf }
}

export const treeOf = (rows: string): string => `external_id,parent_external_id,name,type\n${rows}`
export const csvOf = (count: number, name = 'Entity'): string =>
  ['external_id,name,type', ...Array.from({ length: count }, (_, n) => `E${n},${name} ${n},process`)].join('\n')

type Apply = Universe['imports']['apply']

/** Replaces how the universe applies changes. */
export function applying(universe: Universe, apply: Apply): Universe {
  return { ...universe, imports: { ...universe.imports, apply } }
}
