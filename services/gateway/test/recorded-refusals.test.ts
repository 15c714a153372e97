import { generateKey } from '@postern/api-key'
import { expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { startTestGateway } from './gateway.ts'

test('a rejected request with a valid key is recorded as a use without a route, and with its reason', async () => {
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
  const refusals = reports.flatMap(({ refusals: lines = [] }) => lines)
  const counted = refusals.map(({ keyId, counts }) => [
    keyId,
    counts.map(({ code, route, address, count }) => `${code} ${route} ${address} ${count}`),
  ])
  expect(Object.fromEntries(counted)).toEqual({
    [key.id]: [
      'insufficient_scope universe.list-entities 127.0.0.1 1',
      'role_required keys.list 127.0.0.1 1',
      'not_found null 127.0.0.1 1',
      'method_not_allowed null 127.0.0.1 1',
    ],
    [revoked.id]: ['key_revoked findings.list 127.0.0.1 1'],
    [bound.id]: ['address_not_allowed findings.list 127.0.0.1 1'],
  })
  expect(refusals.flatMap(({ recent }) => recent.map(({ method, code }) => `${method} ${code}`))).toEqual([
    'GET insufficient_scope',
    'GET role_required',
    'GET not_found',
    'PUT method_not_allowed',
    'GET key_revoked',
    'GET address_not_allowed',
  ])
})
