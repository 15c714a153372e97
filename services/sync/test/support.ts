import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createInterface } from 'node:readline'
import {
  type CallAnswer,
  type Principal,
  type SignedCaller,
  createTestCaller,
  createTestDatabase,
  servicePatience,
  randomRing,
  compileCache,
  programOf,
  spawnTestService,
  assertNoKeyInLine,
} from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { openTenantDb } from '@postern/tenant-db'
import { syncService } from '../src/service.ts'
import type { SourceLimits } from '../src/source/types.ts'

export async function makeWorld() {
  const database = await createTestDatabase()
  const rings = {
    sync: randomRing(),
    universe: randomRing(),
    syncUniverse: randomRing(),
    operator: randomRing(),
    secrets: randomRing(),
  }
  const owner = openTenantDb({
    connectionString: database.url('superuser'),
    maxConnections: 1,
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'sync-test',
  })
  const callerOf = (keyName: string, ring: string) => (baseUrl: string) =>
    createTestCaller({ baseUrl, keyName, ring, assertionKeys: database.assertionKeys })
  const environment = (universeUrl: string) => ({
    POSTERN_DATABASE_URL: database.url('sync'),
    POSTERN_SIGNING_SYNC: rings.sync,
    POSTERN_SIGNING_SYNC_UNIVERSE: rings.syncUniverse,
    POSTERN_SIGNING_OPERATOR: rings.operator,
    POSTERN_SYNC_SECRETS: rings.secrets,
    POSTERN_SYNC_POLL_MS: '500',
    // Each of its workers asks the queue twice a second.
    POSTERN_WEBHOOK_WORKERS: '0',
    POSTERN_UNIVERSE_URL: universeUrl,
    POSTERN_REQUEST_LOG: 'off',
    ...servicePatience,
  })
  const logged: string[] = []
  const writeLog = (line: string) => {
    assertNoKeyInLine(line)
    logged.push(line)
  }
  return {
    database,
    rings,
    logged,
    syncCaller: callerOf('sync', rings.sync),
    universeCaller: callerOf('universe', rings.universe),
    /** Bypasses row-level security. */
    rows: async (text: string, values: readonly unknown[] = []) =>
      await owner.system(async (tx) => await tx.query<Record<string, unknown>>({ text, values })),
    startSync: async (universeUrl: string, extra: Record<string, string> = {}, limits: Partial<SourceLimits> = {}) => {
      const env = { ...environment(universeUrl), POSTERN_CHECK_ANSWERS: 'on', ...extra }
      const openDeps: typeof syncService.openDeps = async (...given) => {
        const deps = await syncService.openDeps(...given)
        return { ...deps, limits: { ...deps.limits, ...limits } }
      }
      return await startService({ ...syncService, openDeps }, env, { writeLog })
    },
    syncEnvironment: environment,
    spawnUniverse: async (syncUniverseRing = rings.syncUniverse) =>
      await spawnUniverse({
        POSTERN_DATABASE_URL: database.url('universe'),
        POSTERN_SIGNING_UNIVERSE: rings.universe,
        POSTERN_SIGNING_SYNC_UNIVERSE: syncUniverseRing,
        POSTERN_SIGNING_EVIDENCE_UNIVERSE: randomRing(),
        POSTERN_SIGNING_FINDINGS_UNIVERSE: randomRing(),
        POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
        POSTERN_FINDINGS_URL: 'http://127.0.0.1:9',
      }),
    close: async () => {
      await owner.close()
      await database.drop()
    },
  }
}

async function spawnUniverse(env: Record<string, string>) {
  const { url, kill } = await spawnTestService('universe', env)
  return { url, stop: async () => await kill('SIGTERM') }
}

export function admin(tenantId: string = randomUUID()): Principal {
  return { tenantId, scopes: ['admin:sync'], id: 'key-1', label: 'Nightly push' }
}

export async function push(caller: SignedCaller, principal: Principal, body: unknown): Promise<CallAnswer> {
  return await caller.call(principal, 'POST', '/api/v1/sync/entities', { body })
}

export function row(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return { external_id: `SAP-${randomUUID()}`, name: 'Treasury', type: 'department', ...fields }
}

/** Starts a sync service with workers, which can be frozen. */
export async function spawnSync(env: Record<string, string>) {
  const child = spawn(process.execPath, [programOf('sync')], {
    env: { PATH: '/usr/bin:/bin', NODE_COMPILE_CACHE: compileCache, ...env, POSTERN_PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const events = new EventEmitter()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const entry: { event?: string; port?: number } = JSON.parse(line)
    events.emit(entry.event ?? '', entry)
  })
  const [listening]: { port?: number }[] = await once(events, 'listening')
  return {
    url: `http://127.0.0.1:${listening?.port}`,
    until: async (event: string) => void (await once(events, event)),
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    kill: () => child.kill('SIGKILL'),
  }
}
