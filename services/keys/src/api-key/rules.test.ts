import { generateKey } from '@postern/api-key'
import { describe, expect, test } from 'vitest'
import {
  type RuleResult,
  decideAddresses,
  decideChange,
  decideExpiry,
  decideOverlap,
  decideSuccessorExpiry,
  decideText,
} from './rules.ts'

const dayMs = 86_400_000
const now = new Date('2026-03-01T12:00:00.000Z')
const inDays = (days: number) => new Date(now.valueOf() + days * dayMs)

function pointersOf(ruling: RuleResult<unknown>) {
  return ruling.ok ? [] : ruling.errors.map(({ pointer }) => pointer)
}

const successor = (lifetimeMs: number) => decideSuccessorExpiry({ choice: undefined, lifetimeMs, now, maxKeyDays: 100 })

describe('the expiry of a new key', () => {
  const custom = (expiresAt: string | undefined, maxKeyDays = 1825) =>
    decideExpiry({ choice: 'custom', expiresAt, now, maxKeyDays })

  test.each([
    ['this very moment', now.toISOString()],
    ['a moment ago', new Date(now.valueOf() - 1).toISOString()],
    ['one millisecond after the maximum', new Date(inDays(1825).valueOf() + 1).toISOString()],
    ['no time', undefined],
    ['a day that does not exist', '2026-13-45T00:00:00Z'],
  ])('is refused for %s', (_what, expiresAt) => {
    expect(pointersOf(custom(expiresAt))).toEqual(['/expires_at'])
  })

  test('is accepted up to the maximum lifetime', () => {
    expect(custom(new Date(now.valueOf() + 1).toISOString())).toMatchObject({ ok: true })
    expect(custom(inDays(1825).toISOString())).toEqual({ ok: true, value: inDays(1825) })
  })

  test('beyond the tenant’s maximum reports an error at `expires_in`', () => {
    expect(pointersOf(decideExpiry({ choice: '1y', expiresAt: undefined, now, maxKeyDays: 364 }))).toEqual([
      '/expires_in',
    ])
    expect(decideExpiry({ choice: '1y', expiresAt: undefined, now, maxKeyDays: 365 })).toEqual({
      ok: true,
      value: inDays(365),
    })
  })

  test('of a successor is the old key’s original lifetime, limited by the current maximum', () => {
    expect(successor(90 * dayMs)).toEqual({ ok: true, value: inDays(90) })
    expect(successor(365 * dayMs)).toEqual({ ok: true, value: inDays(100) })
  })
})

describe('an overlap', () => {
  test.each(['8d', '169h', '10081m', '', '7', 'd', '1w', '-1d', '1.5h', ' 1h'])('of %j is refused', (text) => {
    expect(pointersOf(decideOverlap(text))).toEqual(['/overlap'])
  })

  test.each([
    ['0s', 0],
    ['90s', 90_000],
    ['5m', 300_000],
    ['24h', dayMs],
    ['7d', 7 * dayMs],
    ['168h', 7 * dayMs],
  ])('of %s is %i ms', (text, value) => {
    expect(decideOverlap(text)).toEqual({ ok: true, value })
  })
})

describe('an address list', () => {
  test.each([
    '',
    'localhost',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.4/33',
    '1.2.3.4/-1',
    '1.2.3.4/8/8',
    '::/129',
    'fe80::1%eth0',
    '01.2.3.4/x',
    '1.2.3.4/ ',
    '1.2.3.4/',
    '1.2.3.4/0x8',
    '::10.0.0.0',
    '::10.0.0.0/104',
    '::a00:0/104',
    '0:0:0:0:0:0:10.0.0.1',
    '::1:0/112',
  ])('with %j is refused at its place', (text) => {
    expect(pointersOf(decideAddresses(['10.0.0.0/8', text]))).toEqual(['/allowed_addresses/1'])
  })

  test.each([
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['192.0.2.1', '192.0.2.1/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:DB8::1/64', '2001:db8::/64'],
    ['::1', '::1/128'],
    ['::', '::/128'],
    ['::1:0/96', '::/96'],
    ['64:ff9b::192.0.2.1', '64:ff9b::c000:201/128'],
    ['::ffff:192.0.2.1', '192.0.2.1/32'],
    ['::ffff:192.0.2.0/120', '192.0.2.0/24'],
    ['::/0', '::/0'],
  ])('keeps %s as %s', (given, kept) => {
    expect(decideAddresses([given, kept])).toEqual({ ok: true, value: [kept] })
  })
})

describe('a change', () => {
  const current = {
    label: 'x',
    note: null,
    owner: null,
    scopes: ['read:*'],
    addresses: ['10.0.0.0/8', '2001:db8::/32'],
    expiresAt: inDays(30),
  }

  test('that widens several fields reports each of them', () => {
    const change = decideChange(current, { scopes: ['*'], addresses: [], expiresAt: inDays(31) })
    expect(change.kind === 'refused' && change.errors.map(({ pointer }) => pointer)).toEqual([
      '/scopes',
      '/allowed_addresses',
      '/expires_at',
    ])
  })

  test('without new values is no change, and a new label is no narrowing', () => {
    expect(decideChange(current, {})).toMatchObject({ kind: 'change', changes: {}, isNarrowing: false })
    expect(decideChange(current, { label: 'y' })).toMatchObject({
      changes: { label: { from: 'x', to: 'y' } },
      isNarrowing: false,
    })
  })

  test.each([
    { scopes: ['read:findings'] },
    { addresses: ['10.1.0.0/16'] },
    { addresses: ['2001:db8:7::/48', '10.0.0.1/32'] },
    { expiresAt: inDays(29) },
  ])('to %j is a narrowing', (wanted) => {
    expect(decideChange(current, wanted)).toMatchObject({
      kind: 'change',
      isNarrowing: true,
      next: { ...current, ...wanted },
    })
  })

  test('that adds the first address list is a narrowing', () => {
    expect(decideChange({ ...current, addresses: [] }, { addresses: ['0.0.0.0/0'] })).toMatchObject({
      isNarrowing: true,
    })
  })

  test('of a key with a range in a deprecated form can keep or remove the range', () => {
    const older = { ...current, addresses: ['::10.0.0.0/104', '203.0.113.0/24'] }
    expect(decideChange(older, { label: 'y' })).toMatchObject({ changes: { label: { from: 'x', to: 'y' } } })
    expect(decideChange(older, { scopes: ['read:findings'] })).toMatchObject({ isNarrowing: true })
    for (const addresses of [['203.0.113.0/24'], ['::10.0.0.0/104']]) {
      expect(decideChange(older, { addresses })).toMatchObject({ isNarrowing: true })
    }
    expect(decideChange(older, { addresses: ['10.0.0.0/8'] })).toMatchObject({ kind: 'refused' })
  })

  test('to an invalid date is rejected', () => {
    expect(decideChange(current, { expiresAt: new Date(Number.NaN) }).kind).toBe('refused')
  })
})

test('a text that contains a key is rejected, and one that only starts like a key is accepted', () => {
  const { value } = generateKey()
  expect(pointersOf(decideText('/label', `(${value})`))).toEqual(['/label'])
  expect(decideText('/label', value.slice(0, 20))).toMatchObject({ ok: true })
})
