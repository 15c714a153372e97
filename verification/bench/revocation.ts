/**
 * @promise Revocation: A revocation is usually confirmed within milliseconds.
 * @alsoShownBy npm run bench
 */

import { operator } from '@postern/local-stack/testing'
import { Client } from 'undici'
import { percentile, round } from './stats.ts'
import type { System } from './system.ts'

interface Spread {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** In milliseconds from the call that revokes a key. */
export interface RevocationLatency {
  readonly gateways: number
  readonly redis: 'up' | 'down'
  readonly revocations: number
  readonly success: Spread
  readonly firstRefusal: Spread
}

/** 4 gateways and then 1, with and without Redis. Leaves one running. */
export async function measureRevocation(
  system: System,
  revocations: { readonly up: number; readonly down: number },
): Promise<RevocationLatency[]> {
  const results: RevocationLatency[] = []
  for (const gateways of [4, 1]) {
    if (gateways === 1) {
      for (const name of ['gateway-2', 'gateway-3', 'gateway-4'] as const) await system.stack.process(name).stop()
    }
    results.push(await measure(system, gateways, 'up', revocations.up))
    await system.stack.redis.stop()
    results.push(await measure(system, gateways, 'down', revocations.down))
    await system.stack.redis.start()
  }
  return results
}

async function measure(
  system: System,
  gateways: number,
  redis: 'up' | 'down',
  revocations: number,
): Promise<RevocationLatency> {
  const clients = system.stack.gateways.slice(0, gateways).map((origin) => new Client(origin))
  const successes: number[] = []
  const refusals: number[] = []
  for (let turn = 0; turn <= revocations; turn += 1) {
    const { success, refused } = await revokeOne(system, clients)
    if (turn === 0) continue
    successes.push(success)
    refusals.push(...refused)
  }
  await Promise.all(clients.map(async (client) => await client.close()))
  return { gateways, redis, revocations, success: spread(successes), firstRefusal: spread(refusals) }
}

async function revokeOne({ stack, tenant }: System, clients: readonly Client[]) {
  const { id, key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
  const ask = async (client: Client): Promise<number> => {
    const { statusCode, body } = await client.request({
      method: 'GET',
      path: '/api/v1/whoami',
      headers: { authorization: `ApiKey ${key}` },
    })
    await body.dump()
    return statusCode
  }
  for (const client of clients) {
    const status = await ask(client)
    if (status !== 200) throw new Error(`a new key was answered ${status}`)
  }
  const calledAt = performance.now()
  const untilRefused = clients.map(async (client) => {
    for (;;) {
      const status = await ask(client)
      if (status === 401) return performance.now() - calledAt
      if (status !== 200) throw new Error(`a key that is being revoked was answered ${status}`)
    }
  })
  const { status, text } = await stack.operator.call(
    { ...operator, tenantId: tenant.id },
    'POST',
    `/api/v1/api-keys/${id}/revoke`,
  )
  const success = performance.now() - calledAt
  if (status !== 200) throw new Error(`the revocation was answered ${status} ${text}`)
  return { success, refused: await Promise.all(untilRefused) }
}

function spread(values: readonly number[]): Spread {
  return {
    p50: round(percentile(values, 0.5), 1),
    p99: round(percentile(values, 0.99), 1),
    max: round(Math.max(...values), 1),
  }
}
