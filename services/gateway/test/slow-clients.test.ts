import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const { value, hash } = generateKey()
const auth = `Authorization: ApiKey ${value}\r\n`

beforeAll(async () => {
  gateway = await startTestGateway({ POSTERN_CLIENT_TIMEOUT_MS: '300' })
  const tenantId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
  const record = keyRecord({ hash, tenantId, scopes: ['*'], keyLimit: 100_000, tenantLimit: 100_000 })
  gateway.keys.records.set(hash, { ...record, expiresAt: Date.now() + 86_400_000 })
  await gateway.untilReady()
})

afterAll(async () => {
  await gateway.close()
})

// Each waits until the gateway closes the connection: without a limit it would wait for ever.
describe.concurrent('a client that keeps a connection busy with little is told so and cut off', () => {
  test.each([
    ['that says nothing more in the middle of a header', `GET /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}X-Sl`],
    ['that says nothing more after the request line', 'GET /api/v1/findings HTTP/1.1\r\n'],
    [
      'that stops in the middle of a body of known length',
      `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"title`,
    ],
    [
      'that stops between the chunks of a body',
      `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n`,
    ],
  ])('%s', async (_how, bytes) => {
    const answer = await gateway.raw(bytes)
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(answer).toContain('application/problem+json')
    expect(answer).toContain('/problems/request-timeout')
    expect(answer).not.toContain(value)
  })

  test('while one that sends all at once is served', async () => {
    expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
  })
})
