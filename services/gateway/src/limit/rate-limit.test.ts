/**
 * @promise Edge: Rate limits hold over all gateways, within 4 percent.
 * @alsoShownBy test/end-to-end/limits.test.ts
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type FakeClocks, fakeClocks, keyRecord, settle, personPrincipal } from '../../test/builders.ts'
import { type Principal, keyPrincipal } from '../authenticate/principal.ts'
import { limitInWords } from './limit-in-words.ts'
import { type Limits, createRateLimit, windowMs } from './rate-limit.ts'
import type { TokenSource } from './token-source.ts'

function principal(keyLimit: number, tenantLimit = 1_000_000): Principal {
  return keyPrincipal(keyRecord({ keyLimit, tenantLimit }))
}

/** Counts as Redis does, in fixed windows of the clock that all gateways share here. */
function sharedSource(clocks: FakeClocks, delay: () => Promise<void> = async () => undefined) {
  const used = new Map<string, number>()
  const source: TokenSource & { isUp: boolean; calls: number } = {
    isUp: true,
    calls: 0,
    isHealthy: () => source.isUp,
    lease: async (name: string, limit: number, wanted: number) => {
      await delay()
      if (!source.isUp) throw new Error('away')
      source.calls += 1
      const now = clocks.monotonic()
      const started = now - (now % windowMs)
      const before = used.get(`${name} ${started}`) ?? 0
      const granted = Math.min(wanted, Math.max(0, limit - before))
      used.set(`${name} ${started}`, before + granted)
      return { granted, left: Math.max(0, limit - before - granted), windowLeftMs: started + windowMs - now }
    },
  }
  return source
}

describe('a limit', () => {
  test('is never exceeded by more than 4 % in a window, by four gateways together under any load', async () => {
    const load = fc.array(
      fc.record({ gateway: fc.nat(3), requests: fc.integer({ min: 1, max: 60 }), passMs: fc.nat(50_000) }),
      { minLength: 1, maxLength: 15 },
    )
    await fc.assert(
      fc.asyncProperty(load, fc.integer({ min: 1, max: 450 }), fc.nat(300), async (steps, limit, delayMs) => {
        const clocks = fakeClocks()
        // Redis answers late: the window that it speaks of may be over by then.
        const source = sharedSource(clocks, async () => clocks.pass(delayMs))
        const record = keyRecord({ keyLimit: limit, tenantLimit: 1_000_000 })
        const gateways = Array.from({ length: 4 }, () => ({
          ...createRateLimit({ source, clocks, gateways: () => 4 }),
          caller: keyPrincipal(record),
        }))
        const admitted = new Map<number, number>()
        for (const { gateway, requests, passMs } of steps) {
          const limiter = gateways[gateway]
          if (limiter === undefined) throw new Error('no such gateway')
          await Promise.all(
            Array.from({ length: requests }, async () => {
              const { kind } = await limiter.consume(limiter.limitsOf(limiter.caller))
              const window = Math.floor(clocks.monotonic() / windowMs)
              if (kind === 'allowed') admitted.set(window, (admitted.get(window) ?? 0) + 1)
            }),
          )
          clocks.pass(passMs)
        }
        for (const count of admitted.values()) expect(count).toBeLessThanOrEqual(limit * 1.04)
      }),
      { numRuns: 25 },
    )
  })

  test('can be used almost completely by one gateway', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
    const limits = limiter.limitsOf(principal(600))
    for (let sent = 0; sent < 600; sent += 1) expect((await limiter.consume(limits)).kind).toBe('allowed')
    expect((await limiter.consume(limits)).kind).toBe('refused')
    // Tokens come in batches: far fewer questions than requests.
    expect(source.calls).toBeLessThan(220)
  })

  test('starts again with the next window, not earlier', async () => {
    const clocks = fakeClocks()
    clocks.pass(windowMs - (clocks.monotonic() % windowMs))
    const limiter = createRateLimit({ source: sharedSource(clocks), clocks, gateways: () => 1 })
    const limits = limiter.limitsOf(principal(1))
    expect((await limiter.consume(limits)).kind).toBe('allowed')
    clocks.pass(windowMs - 1)
    expect(await limiter.consume(limits)).toMatchObject({ kind: 'refused', retryAfterSeconds: 1 })
    clocks.pass(1)
    expect((await limiter.consume(limits)).kind).toBe('allowed')
  })

  test('has tokens that expire at the end of their window, however late they arrive', async () => {
    const clocks = fakeClocks()
    clocks.pass(windowMs - (clocks.monotonic() % windowMs) + 50_000)
    const gate = Promise.withResolvers<void>()
    const source = sharedSource(clocks)
    const limiter = createRateLimit({
      source: {
        isHealthy: () => true,
        lease: async (...wanted) => {
          const lease = await source.lease(...wanted)
          await gate.promise
          return lease
        },
      },
      clocks,
      gateways: () => 1,
    })
    const limits = limiter.limitsOf(principal(1))
    const taken = limiter.consume(limits)
    await settle()
    clocks.pass(20_000)
    gate.resolve()
    expect((await taken).kind).toBe('allowed')
    // It was counted in its own window.
    expect((await limiter.consume(limits)).kind).toBe('refused')
    expect(source.calls).toBe(2)
  })

  test('of the tenant applies to all its keys together', async () => {
    const clocks = fakeClocks()
    const limiter = createRateLimit({ source: sharedSource(clocks), clocks, gateways: () => 1 })
    const keys = [principal(100, 3), principal(100, 3)].map((key) => limiter.limitsOf(key))
    const verdicts = []
    for (let sent = 0; sent < 4; sent += 1) for (const limits of keys) verdicts.push(await limiter.consume(limits))
    expect(verdicts.filter(({ kind }) => kind === 'allowed')).toHaveLength(3)
    expect(verdicts.at(-1)).toMatchObject({ kind: 'refused', bucket: { limit: 3 } })
  })

  test('of the tenant reserves its last tenth for people, so that they can revoke the key that used up the rest', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    const gateways = [1, 2].map(() => createRateLimit({ source, clocks, gateways: () => 2 }))
    const record = keyRecord({ keyLimit: 1000, tenantLimit: 100 })
    const person = personPrincipal(
      { subject: 'ada', name: 'Ada Lund', roles: ['admin'], expiresAt: 9e12 },
      { ...record, readAt: 0 },
    )
    const takenBy = async (caller: Principal, requests: number) => {
      const verdicts = []
      for (let sent = 0; sent < requests; sent += 1) {
        for (const limiter of gateways)
          verdicts.push(await limiter.consume(limiter.limitsOf({ ...caller, limits: undefined })))
      }
      return { allowed: verdicts.filter(({ kind }) => kind === 'allowed').length, last: verdicts.at(-1) }
    }
    const key = keyPrincipal(record)
    expect((await takenBy(key, 60)).allowed).toBe(90)
    expect((await takenBy(person, 4)).allowed).toBe(8)
    expect((await takenBy(key, 1)).allowed).toBe(0)
    // And together they have no more than the limit.
    expect(await takenBy(person, 4)).toMatchObject({
      allowed: 2,
      last: { kind: 'refused', bucket: { kind: 'tenant' } },
    })
    // A key that comes before the others leaves the reserve.
    clocks.pass(windowMs)
    expect((await takenBy(person, 20)).allowed).toBe(40)
    expect((await takenBy(key, 60)).allowed).toBe(50)
    expect((await takenBy(person, 10)).allowed).toBe(10)
  })

  test('applies to a caller that returns within its window after many others have called', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    // Only the gateway's own count decides.
    source.isUp = false
    const limiter = createRateLimit({ source, clocks, gateways: () => 1 })
    const record = keyRecord({ keyLimit: 100, tenantLimit: 3 })
    for (let sent = 0; sent < 3; sent += 1) await limiter.consume(limiter.limitsOf(keyPrincipal(record)))
    clocks.pass(windowMs - 1)
    for (let at = 0; at < 1000; at += 1) {
      const other = limiter.limitsOf({ ...principal(100), limitId: `key-${at}`, tenantId: `tenant-${at}` })
      await limiter.consume(other)
    }
    const verdict = await limiter.consume(limiter.limitsOf(keyPrincipal(record)))
    expect(verdict).toMatchObject({ kind: 'refused', bucket: { limit: 3 } })
  })

  test('is shared by a key and its successor', async () => {
    const clocks = fakeClocks()
    const limiter = createRateLimit({ source: sharedSource(clocks), clocks, gateways: () => 1 })
    const old = keyRecord({ keyLimit: 10, tenantLimit: 1000 })
    const successor = keyRecord({ keyLimit: 10, tenantLimit: 1000, limitId: old.id })
    const kinds: string[] = []
    for (const caller of Array.from({ length: 6 }, () => [keyPrincipal(old), keyPrincipal(successor)]).flat()) {
      kinds.push((await limiter.consume(limiter.limitsOf(caller))).kind)
    }
    expect(kinds).toEqual([...Array(10).fill('allowed'), 'refused', 'refused'])
  })

  test('of a caller that paused while many others called is counted once', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    source.isUp = false
    const limiter = createRateLimit({ source, clocks, gateways: () => 1 })
    const record = keyRecord({ keyLimit: 100, tenantLimit: 3 })
    const [early, late] = [keyPrincipal(record), keyPrincipal(record)]
    await limiter.consume(limiter.limitsOf(early))
    clocks.pass(2 * windowMs)
    // Its window is over: what the gateway knows of it is forgotten, and it holds on to it.
    for (let at = 0; at < 1000; at += 1)
      limiter.limitsOf({ ...principal(100), limitId: `key-${at}`, tenantId: `tenant-${at}` })
    const kinds: string[] = []
    for (const caller of [early, late, early, late, early]) {
      kinds.push((await limiter.consume(limiter.limitsOf(caller))).kind)
    }
    expect(kinds).toEqual(['allowed', 'allowed', 'allowed', 'refused', 'refused'])
  })

  test('has one bucket, even if a new limit of the tenant replaces a removed bucket', async () => {
    const clocks = fakeClocks()
    const limiter = createRateLimit({ source: sharedSource(clocks), clocks, gateways: () => 1 })
    const record = keyRecord({ keyLimit: 100, tenantLimit: 1000 })
    await limiter.consume(limiter.limitsOf(keyPrincipal(record)))
    clocks.pass(2 * windowMs)
    const changed = { ...record, tenantLimit: 2000 }
    const [first, second] = [keyPrincipal(changed), keyPrincipal(changed)].map((caller) => limiter.limitsOf(caller))
    expect(first?.principal.isForgotten).toBe(false)
    expect(second?.principal).toBe(first?.principal)
    expect(second?.tenant).toBe(first?.tenant)
  })

  test('needs no Redis for a caller with few requests', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
    const limits = limiter.limitsOf(principal(600))
    for (let minute = 0; minute < 5; minute += 1) {
      // 2 % of 600, for each of four gateways.
      for (let sent = 0; sent < 3; sent += 1) expect(limiter.tryConsume(limits)).toBe(true)
      expect(limiter.tryConsume(limits)).toBe(false)
      clocks.pass(windowMs)
    }
    expect(source.calls).toBe(0)
  })

  test('needs no Redis while tokens are left', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    const limiter = createRateLimit({ source, clocks, gateways: () => 1 })
    const limits = limiter.limitsOf(principal(6000))
    // The free tokens, and some that were fetched.
    for (let sent = 0; sent < 124; sent += 1) await limiter.consume(limits)
    const { calls } = source
    expect(calls).toBeGreaterThan(0)
    expect(limiter.tryConsume(limits)).toBe(true)
    expect(source.calls).toBe(calls)
  })
})

describe('while Redis is unavailable', () => {
  test('each gateway accepts its share, so that all together keep the limit', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    source.isUp = false
    const record = keyRecord({ keyLimit: 100, tenantLimit: 1_000_000 })
    let admitted = 0
    for (let gateway = 0; gateway < 4; gateway += 1) {
      const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
      const limits = limiter.limitsOf(keyPrincipal(record))
      for (let sent = 0; sent < 100; sent += 1) if ((await limiter.consume(limits)).kind === 'allowed') admitted += 1
    }
    expect(admitted).toBe(100)
  })

  test('requests that were accepted before count against the share', async () => {
    const clocks = fakeClocks()
    clocks.pass(windowMs - (clocks.monotonic() % windowMs))
    const source = sharedSource(clocks)
    const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
    const limits = limiter.limitsOf(principal(100))
    for (let sent = 0; sent < 20; sent += 1) await limiter.consume(limits)
    source.isUp = false
    let more = 0
    while ((await limiter.consume(limits)).kind === 'allowed') more += 1
    expect(more).toBe(5)
  })

  test('a limit of one accepts one request', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    source.isUp = false
    const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
    const limits = limiter.limitsOf(principal(1))
    expect((await limiter.consume(limits)).kind).toBe('allowed')
    expect((await limiter.consume(limits)).kind).toBe('refused')
  })
})

async function admit(limiter: ReturnType<typeof createRateLimit>, limits: Limits): Promise<number> {
  let admitted = 0
  while ((await limiter.consume(limits)).kind === 'allowed') admitted += 1
  return admitted
}

describe('the share of a limit without Redis', () => {
  test('follows the number of gateways that hold a lease now', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    source.isUp = false
    let gateways = 2
    const limiter = createRateLimit({ source, clocks, gateways: () => gateways })
    const limits = limiter.limitsOf(principal(100))
    expect(await admit(limiter, limits)).toBe(50)
    gateways = 4
    clocks.pass(windowMs)
    expect(await admit(limiter, limits)).toBe(25)
    expect(limiter.limitShare()).toBe(0.25)
  })

  test('is a tenth while the number of gateways is unknown', async () => {
    const clocks = fakeClocks()
    const source = sharedSource(clocks)
    source.isUp = false
    const limiter = createRateLimit({ source, clocks, gateways: () => undefined })
    expect(await admit(limiter, limiter.limitsOf(principal(100)))).toBe(10)
  })

  test('is in RateLimit-Policy and the refusal; the full limit returns with Redis', async () => {
    const clocks = fakeClocks()
    clocks.pass(windowMs - (clocks.monotonic() % windowMs))
    const source = sharedSource(clocks)
    source.isUp = false
    const limiter = createRateLimit({ source, clocks, gateways: () => 4 })
    const limits = limiter.limitsOf(principal(100))
    expect(await admit(limiter, limits)).toBe(25)
    expect(limits.principal.policy).toBe('"caller";q=25;w=60')
    expect(limitInWords(limits.principal, undefined)).toBe(
      'The limit of this key is 100 requests a minute. ' +
        'This gateway enforces its share of 25, because the shared counter does not answer.',
    )
    source.isUp = true
    clocks.pass(1000)
    // Those that the share let through are counted.
    expect(await admit(limiter, limits)).toBe(75)
    expect(limits.principal.policy).toBe('"caller";q=100;w=60')
    expect(limiter.limitShare()).toBe(1)
  })

  test('does not let a request wait for a Redis that answers only others', async () => {
    const clocks = fakeClocks()
    const source = { isHealthy: () => true, lease: async () => await Promise.reject(new Error('late')) }
    const limiter = createRateLimit({ source, clocks, gateways: () => 2 })
    expect(await admit(limiter, limiter.limitsOf(principal(100)))).toBe(50)
  })
})

test('a refusal says whose limit was reached', () => {
  const key = { kind: 'api_key', tenantLimit: 100 } as const
  const person = { kind: 'user', tenantLimit: 100 } as const
  expect(limitInWords({ kind: 'api_key', limit: 50, effectiveLimit: 50 }, key)).toBe(
    'The limit of this key is 50 requests a minute.',
  )
  expect(limitInWords({ kind: 'user', limit: 1200, effectiveLimit: 1200 }, person)).toBe(
    'The limit of a person is 1200 requests a minute.',
  )
  const ofKeys = 'The limit of all keys of this tenant together is 90 requests a minute.'
  expect(limitInWords({ kind: 'tenant', limit: 90, effectiveLimit: 90 }, key)).toBe(ofKeys)
  expect(limitInWords({ kind: 'tenant', limit: 90, effectiveLimit: 90 }, person)).toBe(
    'The limit of this tenant is 100 requests a minute.',
  )
})
