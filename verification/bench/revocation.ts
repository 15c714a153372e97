/**
 * @promise Revocation: A revocation is usually confirmed within milliseconds.
 * @alsoShownBy npm run bench
 */

import { bulkPreviewSchema, maxBulkKeys } from '@postern/contracts'
import { type Principal, operator } from '@postern/local-stack/testing'
import { Client } from 'undici'
import { percentile, round } from './stats.ts'
import type { System } from './system.ts'

interface Spread {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** In milliseconds from the call that revokes `keys` keys. */
export interface RevocationLatency {
  readonly gateways: number
  readonly keys: number
  readonly redis: 'up' | 'down'
  readonly revocations: number
  readonly success: Spread
  readonly firstRefusal: Spread
}

/** Keys of one call that are asked for until they are refused. */
const mostAsked = 10

/** 4 gateways and then 1, with and without Redis, and as many keys as one call takes. Leaves one running. */
export async function measureRevocation(
  system: System,
  revocations: { readonly up: number; readonly down: number },
): Promise<RevocationLatency[]> {
  const results: RevocationLatency[] = [await measure(system, 4, 'up', { revocations: 1, keys: maxBulkKeys })]
  for (const gateways of [4, 1]) {
    if (gateways === 1) {
      for (const name of ['gateway-2', 'gateway-3', 'gateway-4'] as const) await system.stack.process(name).stop()
    }
    results.push(await measure(system, gateways, 'up', { revocations: revocations.up, keys: 1 }))
    await system.stack.redis.stop()
    results.push(await measure(system, gateways, 'down', { revocations: revocations.down, keys: 1 }))
    await system.stack.redis.start()
  }
  return results
}

async function measure(
  system: System,
  gateways: number,
  redis: 'up' | 'down',
  { revocations, keys }: { readonly revocations: number; readonly keys: number },
): Promise<RevocationLatency> {
  const clients = system.stack.gateways.slice(0, gateways).map((origin) => new Client(origin))
  const successes: number[] = []
  const refusals: number[] = []
  for (let turn = 0; turn <= revocations; turn += 1) {
    const { success, refused } = await revoke(system, clients, keys)
    if (turn === 0) continue
    successes.push(success)
    refusals.push(...refused)
  }
  await Promise.all(clients.map(async (client) => await client.close()))
  return { gateways, keys, redis, revocations, success: spread(successes), firstRefusal: spread(refusals) }
}

async function revoke({ stack, tenant }: System, clients: readonly Client[], count: number) {
  const made = await createKeys(stack, tenant, count)
  const caller = { ...operator, tenantId: tenant.id }
  const ids = made.map(({ id }) => id)
  const [target, body] =
    count === 1
      ? [`/api/v1/api-keys/${ids[0]}/revoke`, undefined]
      : ['/api/v1/api-keys/bulk', { action: 'revoke', ids, version: await previewed(stack, caller, ids) }]
  const asked = made.filter((_, at) => at % Math.ceil(count / mostAsked) === 0)
  for (const client of clients) {
    for (const { key } of made) {
      const status = await ask(client, key)
      if (status !== 200) throw new Error(`a new key was answered ${status}`)
    }
  }
  const calledAt = performance.now()
  const untilRefused = clients.flatMap((client) =>
    asked.map(async ({ key }) => {
      for (;;) {
        const status = await ask(client, key)
        if (status === 401) return performance.now() - calledAt
        if (status !== 200) throw new Error(`a key that is being revoked was answered ${status}`)
      }
    }),
  )
  const { status, text } = await stack.operator.call(caller, 'POST', target, body === undefined ? {} : { body })
  const success = performance.now() - calledAt
  if (status !== 200) throw new Error(`the revocation was answered ${status} ${text}`)
  return { success, refused: await Promise.all(untilRefused) }
}

/** Returns the status. */
async function ask(client: Client, key: string): Promise<number> {
  const { statusCode, body } = await client.request({
    method: 'GET',
    path: '/api/v1/whoami',
    headers: { authorization: `ApiKey ${key}` },
  })
  await body.dump()
  return statusCode
}

async function createKeys(stack: System['stack'], tenant: System['tenant'], count: number) {
  const made: Awaited<ReturnType<typeof stack.createKey>>[] = []
  while (made.length < count) {
    const some = Array.from(
      { length: Math.min(50, count - made.length) },
      async () => await stack.createKey(tenant, { scopes: ['read:findings'] }),
    )
    made.push(...(await Promise.all(some)))
  }
  return made
}

async function previewed(
  { operator: client }: System['stack'],
  caller: Principal,
  ids: readonly string[],
): Promise<string> {
  const { json } = await client.call(caller, 'POST', '/api/v1/api-keys/bulk/preview', { body: { ids } })
  return bulkPreviewSchema.parse(json).version
}

function spread(values: readonly number[]): Spread {
  return {
    p50: round(percentile(values, 0.5), 1),
    p99: round(percentile(values, 0.99), 1),
    max: round(Math.max(...values), 1),
  }
}
