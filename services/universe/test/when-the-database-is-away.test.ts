import { createTestCaller, randomRing } from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { universeService } from '../src/service.ts'
import { newTenant, path } from './service.ts'

test('without its database the service lives, is not ready, and asks callers to come back', async () => {
  const ring = randomRing()
  const service = await startService(
    universeService,
    {
      // Port 1 has no server.
      POSTERN_DATABASE_URL: 'postgres://nobody:nothing@127.0.0.1:1/none',
      POSTERN_SIGNING_UNIVERSE: ring,
      POSTERN_SIGNING_SYNC_UNIVERSE: randomRing(),
      POSTERN_SIGNING_EVIDENCE_UNIVERSE: randomRing(),
      POSTERN_SIGNING_FINDINGS_UNIVERSE: randomRing(),
      POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
      POSTERN_FINDINGS_URL: 'http://127.0.0.1:9',
      POSTERN_REQUEST_LOG: 'off',
    },
    { writeLog: () => undefined },
  )
  try {
    const caller = createTestCaller({ baseUrl: service.url, keyName: 'universe', ring, assertionKeys: randomRing() })
    const answer = await caller.call(newTenant(), 'GET', path)
    expect(answer.status).toBe(503)
    expect(answer.json).toMatchObject({ code: 'service_unavailable' })
    expect(answer.headers['retry-after']).toBe('1')
    expect(answer.text).not.toContain('127.0.0.1')
    const lines = await caller.call(newTenant(), 'GET', path, { headers: { accept: 'text/csv' } })
    expect([lines.status, lines.json]).toMatchObject([503, { code: 'service_unavailable' }])
    expect((await fetch(`${service.url}/internal/health/live`)).status).toBe(200)
    expect((await fetch(`${service.url}/internal/health/ready`)).status).toBe(503)
  } finally {
    await service.close()
  }
})
