import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import {
  type TestDatabase,
  createTestCaller,
  servicePatience,
  randomRing,
  compileCache,
  programOf,
} from '@postern/local-stack/testing'
import { expect } from 'vitest'

export type SpawnedUniverse = Awaited<ReturnType<typeof spawnUniverse>>

/** The real universe service as a process on the same database. */
export async function spawnUniverse(database: TestDatabase, findingsRing: string) {
  const syncRing = randomRing()
  const child = spawn(process.execPath, [programOf('universe')], {
    env: {
      PATH: '/usr/bin:/bin',
      NODE_COMPILE_CACHE: compileCache,
      POSTERN_PORT: '0',
      POSTERN_REQUEST_LOG: 'off',
      ...servicePatience,
      POSTERN_DATABASE_URL: database.url('universe'),
      POSTERN_SIGNING_UNIVERSE: randomRing(),
      POSTERN_SIGNING_SYNC_UNIVERSE: syncRing,
      POSTERN_SIGNING_EVIDENCE_UNIVERSE: randomRing(),
      POSTERN_SIGNING_FINDINGS_UNIVERSE: findingsRing,
      POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
      POSTERN_FINDINGS_URL: 'http://127.0.0.1:9',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let port: unknown
  for await (const line of createInterface({ input: child.stdout })) {
    const entry: { event?: string; port?: number } = JSON.parse(line)
    if (entry.event === 'listening') {
      port = entry.port
      break
    }
  }
  child.stdout.resume()
  if (typeof port !== 'number') throw new Error('the universe service did not start')
  const url = `http://127.0.0.1:${port}`
  const sync = createTestCaller({
    baseUrl: url,
    keyName: 'sync-universe',
    ring: syncRing,
    assertionKeys: database.assertionKeys,
  })
  return {
    url,
    /** Pushes as the sync service does: `path` is below /internal/v1. */
    push: async (tenantId: string, path: string, body: object) => {
      const answer = await sync.call(
        { tenantId, kind: 'service', id: 'inline', label: 'Inline push' },
        'POST',
        `/internal/v1/${path}`,
        { body: { run_id: randomUUID(), ...body } },
      )
      expect([answer.status, answer.text]).toEqual([200, answer.text])
    },
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    },
  }
}
