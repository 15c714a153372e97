import { randomUUID } from 'node:crypto'
import { internalPaths } from '@postern/contracts/internal'
import { type TestDatabase, createTestCaller, randomRing, spawnTestService } from '@postern/local-stack/testing'
import { expect } from 'vitest'

export async function spawnUniverse(database: TestDatabase, evidenceRing: string) {
  const syncRing = randomRing()
  const universe = await spawnTestService('universe', {
    POSTERN_DATABASE_URL: database.url('universe'),
    POSTERN_SIGNING_UNIVERSE: randomRing(),
    POSTERN_SIGNING_SYNC_UNIVERSE: syncRing,
    POSTERN_SIGNING_EVIDENCE_UNIVERSE: evidenceRing,
    POSTERN_SIGNING_FINDINGS_UNIVERSE: randomRing(),
    POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
    POSTERN_FINDINGS_URL: 'http://127.0.0.1:9',
  })
  const { url } = universe
  const { assertionKeys } = database
  const sync = createTestCaller({ baseUrl: url, keyName: 'sync-universe', ring: syncRing, assertionKeys })
  return {
    url,
    /** Creates test procedures TP-0001, TP-0002 and so on. */
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
    stop: async () => await universe.kill('SIGKILL'),
  }
}
