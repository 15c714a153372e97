import { randomUUID } from 'node:crypto'
import { type Connector, type Run, connectorSchema, entitySchema, runSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { parseKeyRing } from '@postern/signed-context'
import { type TenantDb, openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { type Universe, openUniverse } from '../src/push/universe.ts'
import { sourceTypes } from '../src/source/index.ts'
import { defaultLimits } from '../src/source/limits.ts'
import { type WorkerParts, carryOut } from '../src/worker/carry-out.ts'
import { makeWorld } from './support.ts'

/** Limits that hold nothing up. */
export const anything = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

/** What of a worker is otherwise in a test. */
interface Other extends Partial<WorkerParts> {
  readonly isLast?: boolean
}

/** Gives a test file a world of its own, in which tests carry runs of small tables out, and ask where entities come from. To be called by each. */
export function useEntitySources() {
  let world: Awaited<ReturnType<typeof makeWorld>>
  let process: Awaited<ReturnType<typeof world.spawnUniverse>>
  /** Answers requests alone: the runs are carried out here. */
  let sync: Awaited<ReturnType<typeof world.startSync>>
  let caller: SignedCaller
  let workerDb: TenantDb
  let universe: Universe

  beforeAll(async () => {
    world = await makeWorld()
    process = await world.spawnUniverse()
    sync = await world.startSync(process.url, { POSTERN_SYNC_WORKERS: '0' })
    caller = world.syncCaller(sync.url)
    workerDb = openTenantDb({
      connectionString: world.database.url('sync'),
      maxConnections: 4,
      connectTimeoutMs: 10_000,
      queryTimeoutMs: 130_000,
      applicationName: 'sync-test-worker',
    })
    universe = openUniverse(
      { url: process.url, ring: parseKeyRing(world.rings.syncUniverse), timeoutMs: 60_000 },
      Date.now,
    )
  })

  afterAll(async () => {
    await universe.close()
    await workerDb.close()
    await sync.close()
    await process.stop()
    await world.close()
  })

  async function create(tenant: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
    const body = { key: `c-${randomUUID()}`, name: 'Table', type: 'csv', dataset: 'auditable_entities', ...fields }
    const answer = await caller.call(tenant, 'POST', '/api/v1/connectors', { body: { safety: anything, ...body } })
    return connectorSchema.parse(answer.json)
  }

  const partsOf = (other: Partial<WorkerParts>): WorkerParts => ({
    workerDb,
    universe,
    sources: sourceTypes,
    outbound: openOutbound({ networks: [] }),
    limits: defaultLimits,
    secretRing: parseKeyRing(world.rings.secrets),
    logger: createLogger({ service: 'sync', level: 'silent' }),
    ended: () => undefined,
    ...other,
  })

  async function work(tenant: Principal, { id }: Run, { isLast = false, ...other }: Other = {}): Promise<Run> {
    await carryOut(partsOf(other), id, { signal: new AbortController().signal, isLast })
    return await now(tenant, id)
  }

  async function now(tenant: Principal, id: string): Promise<Run> {
    return runSchema.parse((await caller.call(tenant, 'GET', `/api/v1/sync-runs/${id}`)).json)
  }

  /** Begins a run of a table of rows `key` or `key:name`; without a key the row cannot be taken in. */
  async function start(tenant: Principal, { id }: Connector, rows: readonly string[], query = ''): Promise<Run> {
    const lines = rows.map((given) => given.split(':')).map(([key = '', name = key]) => `${key},${name},process`)
    const answer = await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs${query}`, {
      body: ['external_id,name,type', ...lines, ''].join('\n'),
      headers: { 'content-type': 'text/csv' },
    })
    return runSchema.parse(answer.json)
  }

  async function run(
    tenant: Principal,
    connector: Connector,
    rows: readonly string[],
    { query, ...other }: Other & { readonly query?: string } = {},
  ): Promise<Run> {
    return await work(tenant, await start(tenant, connector, rows, query), other)
  }

  async function read({ tenantId }: Principal, key: string) {
    const reader = { tenantId, scopes: ['read:universe'] }
    const answer = await world.universeCaller(process.url).call(reader, 'GET', `/api/v1/entities/ext:${key}`)
    const { source, version, status } = entitySchema.parse(answer.json)
    return { source, version, status }
  }

  return {
    /** What there is once the file has begun. */
    parts: () => ({ world, caller, workerDb, universe, process }),
    partsOf,
    create,
    start,
    work,
    now,
    run,
    read,
  }
}
