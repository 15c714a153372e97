import { generateKey } from '@postern/api-key'
import { expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { startTestGateway } from './gateway.ts'

test('a rejected request with a valid key is recorded as a use without a route', async () => {
  const gateway = await startTestGateway()
  const newKey = (given: Parameters<typeof keyRecord>[0]) => {
    const { value, hash } = generateKey()
    const record = keyRecord({ hash, scopes: ['read:findings'], expiresAt: Date.now() + 86_400_000, ...given })
    gateway.keys.records.set(hash, record)
    return { value, id: record.id }
  }
  const key = newKey({})
  const revoked = newKey({ revoked: true })
  const bound = newKey({ allowedAddresses: ['203.0.113.0/24'] })
  await gateway.untilReady()
  const statuses: number[] = []
  for (const path of ['/api/v1/entities', '/api/v1/api-keys', '/api/v1/nowhere', '/api/v1/findings'])
    statuses.push((await gateway.get(path, key.value)).status)
  statuses.push((await gateway.get('/api/v1/findings', revoked.value)).status)
  statuses.push((await gateway.get('/api/v1/findings', bound.value)).status)
  expect(statuses).toEqual([403, 403, 404, 200, 401, 403])
  const wrongMethod = await gateway.raw(
    `PUT /api/v1/findings HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ApiKey ${key.value}\r\nContent-Length: 0\r\n\r\n`,
  )
  expect(wrongMethod).toMatch(/^HTTP\/1\.1 405 /)
  await gateway.close()
  const { reports } = gateway.keys
  expect(reports.flatMap(({ uses }) => uses)).toMatchObject([
    { keyId: key.id, count: 5, routes: { 'findings.list': 1 }, address: '127.0.0.1' },
  ])
  const denials = reports.flatMap((report) => report.denials)
  expect(denials.map(({ keyId, reason, count }) => [keyId, reason, count])).toEqual([
    [key.id, 'scope', 2],
    [revoked.id, 'revoked', 1],
    [bound.id, 'address', 1],
  ])
})
