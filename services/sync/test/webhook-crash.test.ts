/**
 * @promise Operation: A worker that dies loses no event, and an event that is sent again has the same webhook-id.
 */

import type { SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { makeWorld, spawnSync } from './support.ts'
import { createEndpoint, endRuns, person, startReceiver, webhooksOnly } from './webhook-support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let receiver: Awaited<ReturnType<typeof startReceiver>>
const killed: (() => unknown)[] = []
let isSlow = true

beforeAll(async () => {
  world = await makeWorld()
  receiver = await startReceiver({
    // Sent, but its outcome is not stored when the worker dies.
    '/slow': ({ id }, response) => {
      if (isSlow && Number.parseInt(id.at(-1) ?? '', 16) % 4 === 0) return
      response.writeHead(204).end()
    },
  })
})
afterAll(async () => {
  for (const kill of killed) kill()
  await receiver.close()
  await world.close()
})

async function spawn(): Promise<{ readonly caller: SignedCaller; readonly kill: () => unknown }> {
  const sync = await spawnSync({
    ...world.syncEnvironment('http://127.0.0.1:9'),
    ...webhooksOnly,
    POSTERN_SYNC_NETWORKS: '127.0.0.1/32',
  })
  killed.push(sync.kill)
  return { caller: world.syncCaller(sync.url), kill: sync.kill }
}

test('every event arrives although workers are killed in the middle, each with one id', async () => {
  const tenant = person()
  let worker = await spawn()
  await createEndpoint(worker.caller, tenant, { url: `${receiver.url}/slow`, ca: receiver.ca })
  const runs: string[] = []
  for (let round = 0; round < 3; round++) {
    const before = receiver.received.length
    runs.push(...(await endRuns(world.rows, tenant, 40)))
    await vi.waitFor(() => expect(receiver.received.length).toBeGreaterThan(before), { timeout: 60_000 })
    worker.kill()
    worker = await spawn()
  }
  isSlow = false
  const arrived = () => new Set(receiver.received.map(({ body }) => body.data.id))
  await vi.waitFor(() => expect(arrived().size).toBe(runs.length), { timeout: 60_000 })
  expect(runs.every((id) => arrived().has(id))).toBe(true)
  const idsOf = (runId: string) =>
    new Set(receiver.received.filter(({ body }) => body.data.id === runId).map(({ id }) => id))
  expect(runs.map((id) => idsOf(id).size)).toEqual(runs.map(() => 1))
  // Control: some were sent twice, because their outcome was not stored.
  expect(receiver.received.length).toBeGreaterThan(runs.length)
  const settled = async () =>
    await world.rows(`select from sync.webhook_delivery where tenant_id = $1 and state <> 'delivered'`, [
      tenant.tenantId,
    ])
  await vi.waitFor(async () => expect(await settled()).toEqual([]), { timeout: 60_000 })
}, 240_000)
