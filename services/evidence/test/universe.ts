import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { internalPaths } from '@postern/contracts/internal'
import {
  type TestDatabase,
  createTestCaller,
  servicePatience,
  randomRing,
  compileCache,
  programOf,
} from '@postern/local-stack/testing'
import { expect } from 'vitest'

/** The real universe service, in a process of its own, on the same database. */
export async function spawnUniverse(database: TestDatabase, evidenceRing: string) {
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
      POSTERN_SIGNING_EVIDENCE_UNIVERSE: evidenceRing,
      POSTERN_SIGNING_FINDINGS_UNIVERSE: randomRing(),
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
  const { assertionKeys } = database
  const sync = createTestCaller({ baseUrl: url, keyName: 'sync-universe', ring: syncRing, assertionKeys })
  return {
    url,
    /** Makes test procedures of a tenant with these external ids: TP-0001, TP-0002 and so on. */
    push: async (tenantId: string, externalIds: readonly string[], fields: object = {}) => {
      const rows = externalIds.map((external_id) => ({ external_id, title: `Test ${external_id}`, ...fields }))
      const answer = await sync.call(
        { tenantId, kind: 'service', id: 'inline', label: 'Inline push' },
        'POST',
        internalPaths.pushTestProcedures,
        { body: { run_id: randomUUID(), test_procedures: rows } },
      )
      expect(answer).toMatchObject({ status: 200 })
    },
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}
