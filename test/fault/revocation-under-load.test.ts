/**
 * @promise Revocation: Revocations hold under full load.
 */

import { bulkPreviewSchema, bulkReceiptSchema } from '@postern/contracts'
import { operator, startTestStack, type TestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { countStatuses, findViolations, type Observation, startLoad, type Target } from '../support/history.ts'

const gatewayCount = 4
const revocationsPerFault = 200
/** Concurrent keys under load and concurrent revocations. */
const atOnce = 10
/** Keys in one call; divides the revocations. */
const keysTogether = 10

let stack: TestStack
let tenant: { readonly id: string }

beforeAll(async () => {
  stack = await startTestStack({ gateways: gatewayCount })
  tenant = await stack.createTenant()
  await liftLimits()
})

/** A fast machine makes more requests than the tenant's default of 60,000 a minute. */
async function liftLimits(): Promise<void> {
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  await client.query('update keys.tenant set key_limit = 1000000000, tenant_limit = 1000000000')
  await client.end()
}

afterAll(async () => {
  await stack.stop()
})

interface Outcome {
  readonly history: ReturnType<typeof startLoad>['history']
  readonly revocations: Map<string, number>
  readonly longestMs: number
}

/** Revokes like a careful client: repeats a 503, which means unconfirmed. Returns the time of the final response. */
async function revoke(keyId: string): Promise<number> {
  const triesAtMost = 10
  for (let tries = 1; ; tries += 1) {
    const answer = await stack.operator.call(
      { ...operator, tenantId: tenant.id },
      'POST',
      `/api/v1/api-keys/${keyId}/revoke`,
    )
    if (answer.status === 503 && tries < triesAtMost) continue
    expect(answer.status, answer.text).toBe(200)
    return performance.now()
  }
}

/** As `revoke`, for several keys in one call. */
async function revokeTogether(ids: readonly string[]): Promise<number> {
  const as = { ...operator, tenantId: tenant.id }
  const preview = await stack.operator.call(as, 'POST', '/api/v1/api-keys/bulk/preview', { body: { ids } })
  const { version } = bulkPreviewSchema.parse(preview.json)
  const triesAtMost = 10
  for (let tries = 1; ; tries += 1) {
    const body = { action: 'revoke', ids, version }
    const answer = await stack.operator.call(as, 'POST', '/api/v1/api-keys/bulk', { body })
    if (answer.status === 503 && tries < triesAtMost) continue
    expect(answer.status, answer.text).toBe(200)
    const { keys } = bulkReceiptSchema.parse(answer.json)
    expect(keys.filter(({ enforced_at: at }) => at !== null).length).toBe(ids.length)
    return performance.now()
  }
}

/** Revokes keys under load, each after every gateway has accepted it and has it in memory. */
async function revokeUnderLoad(count: number, together = 1): Promise<Outcome> {
  const targets: Target[] = []
  const revocations = new Map<string, number>()
  const load = startLoad({ gateways: stack.gateways, targets, path: '/api/v1/whoami', workers: 16 })
  let begun = 0
  let longestMs = 0

  async function addKey(): Promise<Target> {
    const { id, key } = await stack.createKey(tenant, { scopes: ['read:findings'] })
    const target = { keyId: id, key }
    targets.push(target)
    return target
  }

  async function revokeSome(): Promise<void> {
    const some = await Promise.all(Array.from({ length: together }, addKey))
    const ids = some.map(({ keyId }) => keyId)
    for (const id of ids) await load.until(id, (history) => gatewaysOf(history, 200).size === gatewayCount)
    const calledAt = performance.now()
    const returnedAt = together === 1 ? await revoke(ids.join('')) : await revokeTogether(ids)
    for (const id of ids) revocations.set(id, returnedAt)
    longestMs = Math.max(longestMs, returnedAt - calledAt)
    // Continues until every gateway has rejected each key, so that each could have broken the promise.
    for (const target of some) {
      await load.until(target.keyId, (history) => {
        const later = history.filter(({ startedAt }) => startedAt > returnedAt)
        return gatewaysOf(later, 401).size === gatewayCount
      })
      targets.splice(targets.indexOf(target), 1)
    }
  }

  try {
    const loops = Array.from({ length: Math.max(1, atOnce / together) }, async () => {
      while (begun < count) {
        begun += together
        await revokeSome()
      }
    })
    await Promise.all(loops)
  } finally {
    await load.stop()
  }
  return { history: load.history, revocations, longestMs }
}

function gatewaysOf(history: readonly Observation[], status: number): Set<string> {
  return new Set(history.filter((seen) => seen.status === status).map(({ gateway }) => gateway))
}

function report(name: string, { history, revocations, longestMs }: Outcome): void {
  const counts = JSON.stringify(countStatuses(history))
  process.stdout.write(
    `revocation, ${name}: ${revocations.size} revocations, ${history.length} requests ${counts}, longest ${Math.round(longestMs)} ms\n`,
  )
}

/**
 * Accepted before, rejected after, and otherwise only 503: a gateway on a starved machine may lose its lease, but only
 * as an exception.
 */
function expectPromiseKept({ history, revocations }: Outcome): void {
  expect(findViolations(history, revocations)).toEqual([])
  expect(revocations.size).toBe(revocationsPerFault)
  const counts = countStatuses(history)
  const { 200: accepted = 0, 401: refused = 0, 503: unsure = 0, ...others } = counts
  expect(others).toEqual({})
  expect(unsure).toBeLessThan(history.length / 10)
  expect(accepted).toBeGreaterThanOrEqual(revocationsPerFault * gatewayCount)
  expect(refused).toBeGreaterThanOrEqual(revocationsPerFault * gatewayCount)
}

describe('no request that starts after its revocation has returned is accepted by any gateway', () => {
  test('with everything up', async () => {
    const outcome = await revokeUnderLoad(revocationsPerFault)
    report('all up', outcome)
    expectPromiseKept(outcome)
  }, 300_000)

  test('with everything up, for keys that one call revokes', async () => {
    const outcome = await revokeUnderLoad(revocationsPerFault, keysTogether)
    report('all up, several in one call', outcome)
    expectPromiseKept(outcome)
  }, 300_000)

  test('with Redis frozen, for keys that one call revokes', async () => {
    stack.redis.kill('SIGSTOP')
    try {
      const outcome = await revokeUnderLoad(revocationsPerFault, keysTogether)
      report('Redis frozen, several in one call', outcome)
      expectPromiseKept(outcome)
    } finally {
      stack.redis.kill('SIGCONT')
    }
  }, 300_000)

  test('with Redis frozen', async () => {
    stack.redis.kill('SIGSTOP')
    try {
      const outcome = await revokeUnderLoad(revocationsPerFault)
      report('Redis frozen', outcome)
      expectPromiseKept(outcome)
    } finally {
      stack.redis.kill('SIGCONT')
    }
  }, 300_000)

  test('with Redis stopped', async () => {
    await stack.redis.stop()
    try {
      const outcome = await revokeUnderLoad(revocationsPerFault)
      report('Redis stopped', outcome)
      expectPromiseKept(outcome)
    } finally {
      await stack.redis.start()
    }
  }, 300_000)
})

describe('the checker of the history', () => {
  const accepted = { keyId: 'a', gateway: 'g', startedAt: 11, endedAt: 12, status: 200 }

  test('reports an accept that started after the revocation had returned', () => {
    expect(findViolations([accepted], new Map([['a', 10]]))).toEqual([accepted])
  })

  test('reports neither one that started before, nor a refusal, nor one of another key', () => {
    const before = { ...accepted, startedAt: 9 }
    const refused = { ...accepted, status: 401 }
    const other = { ...accepted, keyId: 'b' }
    expect(findViolations([before, refused, other], new Map([['a', 10]]))).toEqual([])
  })
})
