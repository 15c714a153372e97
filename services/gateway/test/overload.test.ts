import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startTestGateway({ POSTERN_MAX_EVENT_LOOP_DELAY_MS: '300' })
  await gateway.untilReady()
})

afterAll(async () => {
  await gateway.close()
})

const path = '/problems/not-found'

test('an overloaded gateway returns 503 with Retry-After until it recovers', async () => {
  // On a busy machine the gateway may be overloaded for a moment.
  await expect.poll(async () => (await gateway.get(path)).status, { timeout: 30_000 }).toBe(200)
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let refused = await gateway.get(path)
  for (let round = 0; round < 50 && refused.status !== 503; round += 1) {
    // As a long computation would, without one: what is looked at each 250 ms is late by more than 300.
    Atomics.wait(cell, 0, 0, 700)
    await nextTurn()
    refused = await gateway.get(path)
  }
  expect([refused.status, JSON.parse(refused.text)]).toEqual([503, expect.objectContaining({ code: 'overloaded' })])
  expect(refused.headers.get('retry-after')).toBe('1')
  await expect.poll(async () => (await gateway.get(path)).status, { timeout: 30_000 }).toBe(200)
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/internal/metrics`)).text()
  expect(metrics).toMatch(/^postern_overload_refusals_total\{[^}]*\} [1-9]/m)
  expect(metrics).toMatch(/^postern_gateway_refusals_total\{code="overloaded"[^}]*\} [1-9]/m)
})
