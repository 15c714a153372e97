/**
 * @promise Keys and secrets: Credentials of connectors are encrypted in the database.
 */

import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { SealError, openSecret, rewrapSecret, sealSecret } from './seal.ts'

const key = (id: string) => ({ id, secret: randomBytes(32) })
const first = key('k1')
const second = key('k2')
const ring = { current: first }
const place = { tenantId: 't', connectorId: 'c', name: 'password' }

describe('a sealed secret', () => {
  test('cannot be decrypted for another tenant, connector or name, or with another key', () => {
    const sealed = sealSecret(ring, place, 'hunter2')
    for (const other of [{ tenantId: 'u' }, { connectorId: 'd' }, { name: 'token' }]) {
      expect(() => openSecret(ring, { ...place, ...other }, sealed)).toThrow(SealError)
    }
    expect(() => openSecret({ current: second }, place, sealed)).toThrow(SealError)
    expect(() => openSecret({ current: { ...second, id: 'k1' } }, place, sealed)).toThrow(SealError)
    expect(openSecret(ring, place, sealed)).toBe('hunter2')
  })

  test('is rejected if any part of it was changed', () => {
    const sealed = sealSecret(ring, place, 'hunter2')
    const parts = sealed.split('.')
    for (const at of [0, 1, 2, 3]) {
      const spoiled = parts.with(at, `${parts[at]?.startsWith('A') === true ? 'B' : 'A'}${parts[at]?.slice(1)}`)
      expect(() => openSecret(ring, place, spoiled.join('.'))).toThrow(SealError)
    }
    expect(() => openSecret(ring, place, 'v1.k1')).toThrow(SealError)
  })

  test('does not show its value, and differs each time', () => {
    const [one, other] = [sealSecret(ring, place, 'hunter2'), sealSecret(ring, place, 'hunter2')]
    expect(one).not.toBe(other)
    expect(Buffer.from(one.split('.')[3] ?? '', 'base64url').toString('latin1')).not.toContain('hunter2')
  })

  test('can be moved to a new key and then no longer needs the old one', () => {
    const sealed = sealSecret(ring, place, 'hunter2')
    const both = { current: second, previous: first }
    expect(openSecret(both, place, sealed)).toBe('hunter2')
    const rewrapped = rewrapSecret(both, place, sealed) ?? ''
    expect(openSecret({ current: second }, place, rewrapped)).toBe('hunter2')
    expect(rewrapSecret(both, place, rewrapped)).toBeUndefined()
  })
})
