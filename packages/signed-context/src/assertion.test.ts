import { createHmac, randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import {
  type AssertionKeeper,
  createAssertionMinter,
  maxAssertionLifetimeSeconds,
  mintAssertion,
  parseAssertion,
  verifyAssertion,
} from './assertion.ts'
import type { KeyRing } from './key-ring.ts'
import { nilTenantId } from './tenant-id.ts'

const tenantId = '0190c0de-1111-7000-8000-00000000000a'
const nowMs = 1_790_000_000_500
const ring: KeyRing = {
  current: { id: 'k2', secret: randomBytes(32) },
  previous: { id: 'k1', secret: randomBytes(32) },
}
const assertion = mintAssertion(ring, tenantId, nowMs)

function sealed(payload: string): string {
  return `${payload}.${createHmac('sha256', ring.current.secret).update(payload).digest('base64url')}`
}

function keeper(): AssertionKeeper {
  return { tenantId, minted: undefined }
}

/** Returns the id of the n-th of many tenants. */
function idOf(n: number): string {
  return `0190c0de-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
}

describe('an assertion is rejected', () => {
  test('when any bit of it is flipped', () => {
    for (let at = 0; at < assertion.length; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const flipped = String.fromCharCode(assertion.charCodeAt(at) ^ (1 << bit))
        const forged = assertion.slice(0, at) + flipped + assertion.slice(at + 1)
        if (verifyAssertion(ring, forged, nowMs) !== undefined) expect.fail(`bit ${bit} of character ${at}`)
      }
    }
    expect(verifyAssertion(ring, assertion, nowMs)).toBe(tenantId)
  })

  test('when any bit of the secret differs', () => {
    for (let at = 0; at < 32; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const secret = Buffer.from(ring.current.secret)
        secret[at] = (secret[at] ?? 0) ^ (1 << bit)
        if (verifyAssertion({ current: { id: 'k2', secret } }, assertion, nowMs) !== undefined)
          expect.fail(`bit ${bit} of byte ${at}`)
      }
    }
    expect(verifyAssertion({ current: ring.current }, assertion, nowMs)).toBe(tenantId)
  })

  test.each([
    ['nothing', ''],
    ['the word for no assertion', 'none'],
    ['an assertion with something before it', ` ${assertion}`],
    ['an assertion with a line feed after it', `${assertion}\n`],
    ['an assertion without its MAC', assertion.slice(0, assertion.lastIndexOf('.'))],
    ['an assertion with something before it, sealed', sealed(`xv1.k2.${tenantId}.1790000060`)],
    ['another version, sealed', sealed(`v2.k2.${tenantId}.1790000060`)],
    ['a tenant in upper case, sealed', sealed(`v1.k2.${tenantId.toUpperCase()}.1790000060`)],
    ['a tenant without hyphens, sealed', sealed(`v1.k2.${tenantId.replaceAll('-', '')}0000.1790000060`)],
    ['hyphens in the wrong places, sealed', sealed(`v1.k2.${'-'.repeat(36)}.1790000060`)],
    ['an expiry with a leading zero, sealed', sealed(`v1.k2.${tenantId}.01790000060`)],
    ['an expiry with a sign, sealed', sealed(`v1.k2.${tenantId}.+1790000060`)],
    ['an expiry with a fraction, sealed', sealed(`v1.k2.${tenantId}.1790000060.5`)],
    ['an expiry in the past, sealed', sealed(`v1.k2.${tenantId}.1790000000`)],
    ['an expiry more than 300 s ahead, sealed', sealed(`v1.k2.${tenantId}.1790000301`)],
    ['an unknown key', sealed(`v1.k3.${tenantId}.1790000060`)],
    ['the MAC of another key', sealed(`v1.k1.${tenantId}.1790000060`)],
  ])('when it is %s', (_name, text) => {
    expect(verifyAssertion(ring, text, nowMs)).toBeUndefined()
  })

  test('control: an assertion without a fault is accepted', () => {
    expect(verifyAssertion(ring, sealed(`v1.k2.${tenantId}.1790000060`), nowMs)).toBe(tenantId)
    expect(verifyAssertion(ring, sealed(`v1.k2.${tenantId}.1790000300`), nowMs)).toBe(tenantId)
  })

  test('from the second of its expiry, and not before', () => {
    expect(verifyAssertion(ring, assertion, 1_790_000_059_999)).toBe(tenantId)
    expect(verifyAssertion(ring, assertion, 1_790_000_060_000)).toBeUndefined()
  })

  test('when it is any other text, without throwing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        expect(verifyAssertion(ring, text, nowMs)).toBeUndefined()
      }),
    )
  })
})

describe('an assertion is not minted', () => {
  test.each([
    '',
    'harbourline',
    tenantId.toUpperCase(),
    `${tenantId} `,
    `x${tenantId}`,
    `${tenantId}.1790000060`,
    '../..',
  ])('for the tenant %j', (text) => {
    expect(() => mintAssertion(ring, text, nowMs)).toThrow('must be a lower-case UUID')
    expect(() => createAssertionMinter(ring)(text, nowMs)).toThrow(TypeError)
  })
})

describe('an assertion', () => {
  test('has the form and the MAC that PostgreSQL verifies', () => {
    const payload = `v1.k2.${tenantId}.1790000060`
    expect(assertion).toBe(sealed(payload))
    expect(parseAssertion(assertion)).toEqual({ keyId: 'k2', tenantId, expiresAt: 1_790_000_060 })
  })

  test('with the previous key is accepted during a rotation', () => {
    const before = mintAssertion(
      { current: { id: 'k1', secret: ring.previous?.secret ?? Buffer.alloc(0) } },
      tenantId,
      nowMs,
    )
    expect(verifyAssertion(ring, before, nowMs)).toBe(tenantId)
    expect(verifyAssertion({ current: ring.current }, before, nowMs)).toBeUndefined()
  })

  test('is accepted if it expires within 300 s', () => {
    expect(verifyAssertion(ring, sealed(`v1.k2.${tenantId}.1790000300`), 1_790_000_000_000)).toBe(tenantId)
  })

  test('of an operator names the nil tenant', () => {
    expect(verifyAssertion(ring, mintAssertion(ring, nilTenantId, nowMs), nowMs)).toBe(nilTenantId)
  })
})

describe('a minter', () => {
  test('returns the same assertion for 20 s and then a new one', () => {
    const mint = createAssertionMinter(ring)
    const first = mint(tenantId, nowMs)
    expect(mint(tenantId, nowMs + 19_999)).toBe(first)
    expect(mint(tenantId, nowMs + 20_000)).not.toBe(first)
  })

  test('never returns an assertion that expires within 40 s', () => {
    const mint = createAssertionMinter(ring)
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 60_000 }), { maxLength: 30 }), (steps) => {
        let now = nowMs
        for (const step of steps) {
          now += step
          const claim = parseAssertion(mint(tenantId, now))
          expect((claim?.expiresAt ?? 0) * 1000 - now).toBeGreaterThan(39_000)
        }
      }),
    )
  })

  test('does not reuse an assertion with a longer lifetime', () => {
    const mint = createAssertionMinter(ring)
    const long = mint(tenantId, nowMs, maxAssertionLifetimeSeconds)
    expect(verifyAssertion(ring, long, nowMs)).toBe(tenantId)
    expect(parseAssertion(long)?.expiresAt).toBe(1_790_000_270)
    expect(parseAssertion(mint(tenantId, nowMs))?.expiresAt).toBe(1_790_000_060)
    expect(parseAssertion(mint(tenantId, nowMs, 1))?.expiresAt).toBe(1_790_000_001)
  })

  test.each([0, -1, maxAssertionLifetimeSeconds + 1, Number.NaN])('rejects a lifetime of %d s', (seconds) => {
    const mint = () => createAssertionMinter(ring)(tenantId, nowMs, seconds)
    expect(mint).toThrow(RangeError)
    expect(mint).toThrow('an assertion lives 1 to 270 s')
  })

  test('mints a new assertion after the clock was set back', () => {
    const mint = createAssertionMinter(ring)
    mint(tenantId, nowMs + 3_600_000)
    expect(verifyAssertion(ring, mint(tenantId, nowMs), nowMs)).toBe(tenantId)
  })

  test('remembers 10,000 tenants and then forgets the least recently minted one', () => {
    const mint = createAssertionMinter(ring)
    /** Whether the assertion is new or reused. */
    const isKept = (n: number, atMs: number) =>
      parseAssertion(mint(idOf(n), atMs))?.expiresAt !== Math.floor(atMs / 1000) + 60
    mint(idOf(0), nowMs)
    for (let n = 1; n < 10_000; n += 1) mint(idOf(n), nowMs + 10_000)
    expect(isKept(0, nowMs + 11_000)).toBe(true)
    // The clock was set back: the second tenant gets a new assertion and is now the most recent.
    expect(isKept(1, nowMs + 5000)).toBe(false)
    expect(isKept(0, nowMs + 12_000)).toBe(true)
    mint(idOf(10_000), nowMs + 12_000)
    expect([isKept(1, nowMs + 13_000), isKept(0, nowMs + 13_000)]).toEqual([true, false])
  })

  test('shares an assertion, and its successor, between all keepers of a tenant', () => {
    const mint = createAssertionMinter(ring)
    const [one, another] = [keeper(), keeper()]
    const first = mint(tenantId, nowMs)
    expect([mint(one, nowMs + 1), mint(another, nowMs + 19_999)]).toEqual([first, first])
    const second = mint(one, nowMs + 20_000)
    expect(verifyAssertion(ring, second, nowMs + 20_000)).toBe(tenantId)
    expect(second).not.toBe(first)
    expect([mint(another, nowMs + 39_999), mint(tenantId, nowMs + 39_999)]).toEqual([second, second])
    expect(mint(another, nowMs + 40_000)).not.toBe(second)
    expect(mint(one, nowMs + 40_000, 1)).not.toBe(mint(one, nowMs + 40_000))
  })

  test('reuses the assertion of a keeper after it has forgotten the tenant', () => {
    const mint = createAssertionMinter(ring)
    const [early, late] = [keeper(), keeper()]
    const first = mint(early, nowMs)
    mint(late, nowMs)
    for (let n = 0; n < 10_000; n += 1) mint(idOf(n), nowMs)
    expect(mint(tenantId, nowMs + 10_000)).not.toBe(first)
    expect([mint(early, nowMs + 10_000), mint(late, nowMs + 10_000)]).toEqual([first, first])
  })

  test('shares one assertion again after it was forgotten and minted for one keeper', () => {
    const mint = createAssertionMinter(ring)
    const [early, late] = [keeper(), keeper()]
    mint(early, nowMs)
    for (let n = 0; n < 10_000; n += 1) mint(idOf(n), nowMs)
    const anew = mint(late, nowMs + 10_000)
    expect([mint(early, nowMs + 20_000), mint(late, nowMs + 20_000)]).toEqual([anew, anew])
    const next = mint(early, nowMs + 30_000)
    expect([mint(late, nowMs + 30_000), mint(tenantId, nowMs + 30_000)]).toEqual([next, next])
  })

  test('does not store an assertion with a longer lifetime in its keeper', () => {
    const [mint, one] = [createAssertionMinter(ring), keeper()]
    mint(one, nowMs, maxAssertionLifetimeSeconds)
    expect(one.minted).toBeUndefined()
  })

  test('never returns the assertion of another tenant', () => {
    const mint = createAssertionMinter(ring)
    const ids = Array.from({ length: 12_000 }, (_none, n) => idOf(n))
    for (let round = 0; round < 2; round += 1)
      for (const id of ids) if (parseAssertion(mint(id, nowMs))?.tenantId !== id) expect.fail(`not the tenant ${id}`)
    expect(ids).toHaveLength(12_000)
  })
})
