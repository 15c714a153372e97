import { once } from 'node:events'
import { createServer } from 'node:http'
import { type Principal, createSignedCaller } from '../src/signed-caller.ts'
import { retryingCaller } from '../src/demo/retry-while-busy.ts'
import { randomRing } from '../src/testing/index.ts'
import { expect, test } from 'vitest'

const tenant: Principal = { tenantId: '00000000-0000-4000-8000-000000000002' }

/** A service that answers with these statuses in turn, and with the last one from then on. */
async function startService(statuses: readonly number[], port = 0) {
  let asked = 0
  const server = createServer((request, response) => {
    request.resume()
    response.statusCode = statuses[Math.min(asked, statuses.length - 1)] ?? 500
    asked += 1
    response.end('{}')
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const url = `http://127.0.0.1:${address.port}`
  const caller = createSignedCaller({
    baseUrl: url,
    keyName: 'operator',
    ring: randomRing(),
    assertionKeys: randomRing(),
  })
  return { caller, url, asked: () => asked, close: () => server.close() }
}

test.each([429, 502, 503, 504])('the demo is seeded although its services answer %i for a while', async (busy) => {
  const service = await startService([busy, busy, 201])
  const caller = retryingCaller(service.caller, { firstDelayMs: 1 })
  const answer = await caller.call(tenant, 'POST', '/api/v1/api-keys', { body: { label: 'a' } })
  expect([answer.status, service.asked()]).toEqual([201, 3])
  service.close()
})

test('the demo is created even if a service does not listen yet', async () => {
  const early = await startService([201])
  const { url } = early
  early.close()
  const caller = retryingCaller(early.caller, { firstDelayMs: 20 })
  const answer = caller.call(tenant, 'POST', '/api/v1/api-keys', { body: { label: 'a' } })
  const late = await startService([201], Number(new URL(url).port))
  expect((await answer).status).toBe(201)
  late.close()
})

test('a service that remains busy ends the creation of the demo in limited time', async () => {
  const service = await startService([503])
  const caller = retryingCaller(service.caller, { forMs: 20, firstDelayMs: 5 })
  expect((await caller.call(tenant, 'GET', '/')).status).toBe(503)
  service.close()
})

test('a request that the service rejects for good is not repeated', async () => {
  const service = await startService([422, 201])
  const caller = retryingCaller(service.caller, { firstDelayMs: 1 })
  expect([(await caller.call(tenant, 'POST', '/', { body: {} })).status, service.asked()]).toEqual([422, 1])
  service.close()
})
