import { randomUUID } from 'node:crypto'
import { type TestDatabase, createTestCaller, randomRing, spawnTestService } from '@postern/local-stack/testing'
import { expect } from 'vitest'

export type SpawnedUniverse = Awaited<ReturnType<typeof spawnUniverse>>

export async function spawnUniverse(database: TestDatabase, findingsRing: string) {
  const syncRing = randomRing()
  const universe = await spawnTestService('universe', {
    POSTERN_DATABASE_URL: database.url('universe'),
    POSTERN_SIGNING_UNIVERSE: randomRing(),
    POSTERN_SIGNING_SYNC_UNIVERSE: syncRing,
    POSTERN_SIGNING_EVIDENCE_UNIVERSE: randomRing(),
    POSTERN_SIGNING_FINDINGS_UNIVERSE: findingsRing,
    POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
    POSTERN_FINDINGS_URL: 'http://127.0.0.1:9',
  })
  const { url } = universe
  const sync = createTestCaller({
    baseUrl: url,
    keyName: 'sync-universe',
    ring: syncRing,
    assertionKeys: database.assertionKeys,
  })
  return {
    url,
    /** `path` is below /internal/v1. */
    push: async (tenantId: string, path: string, body: object) => {
      const answer = await sync.call(
        { tenantId, kind: 'service', id: 'inline', label: 'Inline push' },
        'POST',
        `/internal/v1/${path}`,
        { body: { run_id: randomUUID(), ...body } },
      )
      expect([answer.status, answer.text]).toEqual([200, answer.text])
    },
    stop: async () => await universe.kill('SIGTERM'),
  }
}
