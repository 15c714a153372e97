import { createTestCaller, randomRing } from '@postern/local-stack/testing'
import { startService } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { findingsService } from '../src/service.ts'
import { checkpointKey, findingBody, newTenant, path } from './service.ts'

test('without its database the service runs, is not ready, and returns 503 with Retry-After', async () => {
  const ring = randomRing()
  const service = await startService(
    findingsService,
    {
      // Port 1 has no server.
      POSTERN_DATABASE_URL: 'postgres://nobody:nothing@127.0.0.1:1/none',
      POSTERN_SIGNING_FINDINGS: ring,
      POSTERN_SIGNING_FINDINGS_UNIVERSE: randomRing(),
      POSTERN_SIGNING_FINDINGS_EVIDENCE: randomRing(),
      POSTERN_SIGNING_UNIVERSE_FINDINGS: randomRing(),
      POSTERN_UNIVERSE_URL: 'http://127.0.0.1:1',
      POSTERN_EVIDENCE_URL: 'http://127.0.0.1:1',
      POSTERN_CHECKPOINT_KEY: checkpointKey,
      POSTERN_REQUEST_LOG: 'off',
    },
    { writeLog: () => undefined },
  )
  try {
    const caller = createTestCaller({ baseUrl: service.url, keyName: 'findings', ring, assertionKeys: randomRing() })
    const answer = await caller.call(newTenant(), 'GET', path)
    expect(answer.status).toBe(503)
    expect(answer.json).toMatchObject({ code: 'service_unavailable' })
    expect(answer.headers['retry-after']).toBe('1')
    expect(answer.text).not.toContain('127.0.0.1')
    const headers = { 'if-match': '*', accept: 'application/json' }
    const plan = `/api/v1/action-plans/${crypto.randomUUID()}`
    for (const other of [
      await caller.call(newTenant(), 'GET', path, { headers: { accept: 'application/x-ndjson' } }),
      await caller.call(newTenant(), 'GET', '/api/v1/exports/poam.json'),
      await caller.call(newTenant(), 'POST', path, { body: findingBody() }),
      await caller.call(newTenant(), 'POST', path, { body: findingBody(), headers: { 'idempotency-key': 'k' } }),
      await caller.call(newTenant(), 'PATCH', plan, { body: { title: 'x' }, headers }),
    ]) {
      expect([other.status, other.json, other.headers['retry-after']]).toMatchObject([
        503,
        { code: 'service_unavailable' },
        '1',
      ])
    }
    expect((await fetch(`${service.url}/internal/health/live`)).status).toBe(200)
    expect((await fetch(`${service.url}/internal/health/ready`)).status).toBe(503)
  } finally {
    await service.close()
  }
})
