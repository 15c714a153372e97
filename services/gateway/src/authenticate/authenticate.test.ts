import { describe, expect, test } from 'vitest'
import {
  acceptedKey,
  address,
  entryOf,
  found,
  hash,
  invalidKey,
  invalidToken,
  missing,
  record,
  scim,
  setUp,
  unavailable,
  valid,
  value,
  withKey,
} from '../../test/authentication.ts'
import { databaseStart, settle } from '../../test/builders.ts'
import { refusal } from '../refusal.ts'

const failedKey = `key from ${address}`

describe('by the header alone', () => {
  test.each([
    ['none', undefined, undefined, missing('ApiKey'), []],
    ['none, below SCIM', undefined, scim, missing('Bearer'), []],
    ['another scheme', 'Basic abc', undefined, missing('ApiKey'), []],
    ['a mistyped key', 'ApiKey postern_x', undefined, invalidKey('ApiKey'), [failedKey]],
    ['a mistyped key as a token, below SCIM', 'Bearer postern_x', scim, invalidKey('Bearer'), [failedKey]],
    ['no token', 'Bearer a b', undefined, invalidToken('The Authorization header does not hold a bearer token.'), []],
  ])('%s is refused, and a key that was tried counts as a failure', async (_what, header, target, expected, noted) => {
    const { ask, said, failed, asked, unreadable, found: looked } = setUp({ check: valid })
    await ask(header, target)
    expect(said).toEqual([expected])
    expect([failed, unreadable]).toEqual([noted, [address]])
    expect([asked, looked.inMemory]).toEqual([[], 0])
  })

  test('an address that sends too many requests without credentials is rejected', async () => {
    const { ask, said } = setUp({ unreadableWait: 7 })
    await ask(undefined)
    expect(said).toMatchObject([['too_many_requests', { retryAfterSeconds: 7, headers: ['connection', 'close'] }]])
  })
})

describe('a key in memory', () => {
  test('is accepted in the same tick, once, and counted', async () => {
    const { begin, said, asked, found: looked } = setUp({ inMemory: entryOf(), wait: { key: 9, token: 9 } })
    begin(withKey)
    expect(said).toEqual([acceptedKey])
    await settle()
    expect(said).toHaveLength(1)
    expect([asked, looked.inMemory]).toEqual([[], 1])
  })

  test('is accepted as a token below SCIM', async () => {
    const { ask, said } = setUp({ inMemory: entryOf(), check: valid })
    await ask(`Bearer ${value}`, scim)
    expect(said).toEqual([acceptedKey])
  })

  test.each([
    ['key_revoked', { revoked: true }, 'The key was revoked and will not work again.', 'revoked_key', 'revoked'],
    ['key_expired', { expiresAt: databaseStart }, 'The key has expired. Ask for a new one.', 'expired_key', 'expired'],
    [
      'tenant_suspended',
      { tenantStatus: 'suspended' as const },
      'The platform has suspended the tenant.',
      undefined,
      undefined,
    ],
    [
      'address_not_allowed',
      { allowedAddresses: ['10.0.0.0/8'] },
      'The key is limited to certain networks, and this address is in none of them.',
      undefined,
      'address',
    ],
  ])('is refused: %s', async (code, given, detail, error, reason) => {
    const { ask, said, denied, failed } = setUp({ inMemory: entryOf(given) })
    const { principal } = await ask(withKey)
    const headers = error === undefined ? [] : ['www-authenticate', `ApiKey realm="postern", error="${error}"`]
    expect(said).toEqual([[code, { detail, headers }]])
    expect(denied).toEqual(reason === undefined ? [] : [[record.id, address, reason]])
    // The log names the owner for certain.
    expect(principal?.id).toBe(record.id)
    expect(failed).toEqual([])
  })

  test('that was overtaken is checked again, and is neither accepted nor rejected if that repeats', async () => {
    const { ask, said, watermarks } = setUp({ inMemory: entryOf() })
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    await ask(withKey)
    expect(said).toEqual([unavailable])
  })
})

describe('a key that is not in memory', () => {
  test('is looked up, and accepted', async () => {
    const { ask, said, asked, found: looked } = setUp({ lookups: [found()] })
    await ask(withKey)
    expect(said).toEqual([acceptedKey])
    expect([asked, looked.inMemory]).toEqual([[hash], 0])
  })

  test.each([
    ['is unknown', { kind: 'unknown' as const }, invalidKey('ApiKey'), [failedKey]],
    ['cannot be looked up now', { kind: 'unavailable' as const }, unavailable, []],
  ])('and %s is refused', async (_what, lookup, expected, noted) => {
    const { ask, said, failed, asked } = setUp({ lookups: [lookup] })
    await ask(withKey)
    expect(said).toEqual([expected])
    expect([failed, asked]).toEqual([noted, [hash]])
  })

  test('is looked up for an address if only its tokens have failed', async () => {
    const { ask, said } = setUp({ lookups: [found()], wait: { token: 9 } })
    await ask(withKey)
    expect(said).toEqual([acceptedKey])
  })

  test('is accepted also from an address with too many rejected keys', async () => {
    const { ask, said } = setUp({ lookups: [found()], wait: { key: 9 } })
    await ask(withKey)
    expect(said).toEqual([acceptedKey])
  })

  test.each(['unknown', 'unavailable'] as const)(
    'that is %s is 429 for an address that has failed too often',
    async (kind) => {
      const { ask, said } = setUp({ lookups: [{ kind }], wait: { key: 9 } })
      await ask(withKey)
      expect(said).toEqual([
        ['too_many_requests', { detail: 'Too many failed authentications from this address.', retryAfterSeconds: 9 }],
      ])
    },
  )

  test('is read at most five times if it is overtaken each time', async () => {
    const { ask, said, asked, watermarks } = setUp({ lookups: [found()] })
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: false })
    await ask(withKey)
    expect(said).toEqual([unavailable])
    expect(asked).toEqual(Array.from({ length: 5 }, () => hash))
  })

  test('that was revoked during its look-up is rejected', async () => {
    const { ask, said, watermarks, meanwhile } = setUp({ lookups: [found()] })
    meanwhile.run = () => watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: true })
    await ask(withKey)
    expect(said).toMatchObject([['key_revoked', {}]])
  })

  test('is not looked up if too many requests wait already', async () => {
    const { ask, said, asked } = setUp({ lookups: [found()], noWait: refusal('overloaded') })
    await ask(withKey)
    expect([said, asked]).toEqual([[['overloaded', {}]], []])
  })

  test('whose look-up fails unexpectedly is neither accepted nor rejected', async () => {
    const error = new Error('unthought of')
    const { ask, said } = setUp({ lookups: [error] })
    await ask(withKey)
    expect(said).toEqual([error])
  })
})

describe('a key that is known to be revoked, and is not in memory', () => {
  const revoked = [
    'key_revoked',
    {
      detail: 'The key was revoked and will not work again.',
      headers: ['www-authenticate', 'ApiKey realm="postern", error="revoked_key"'],
    },
  ]

  test.each([
    ['found', found({ revoked: true }), [[record.id, address, 'revoked']], []],
    ['unknown', { kind: 'unknown' as const }, [], []],
    ['not to be had', new Error('no answer'), [], [['request-id-1', new Error('no answer')]]],
  ])('is rejected; its owner is %s', async (_what, lookup, denials, failures) => {
    const { ask, said, denied, refused, crashes, watermarks, failed } = setUp({ lookups: [lookup] })
    watermarks.apply({ kind: 'key', seq: 1, hash, version: 2, revoked: true })
    await ask(withKey)
    expect(said).toEqual([revoked])
    expect([denied, crashes, failed]).toEqual([denials, failures, []])
    // The request had no principal when it was refused, so it is counted here.
    expect(refused).toEqual(denials.map(([id, from]) => [id, from, 'key_revoked']))
  })
})
