/**
 * @promise Revocation: Reading and writing Redis does not make a gateway accept a key.
 * @alsoShownBy test/security/forged-requests.test.ts, test/fault/faults.test.ts
 */

import { randomBytes } from 'node:crypto'
import type { KeyRecord, Revocation } from '@postern/contracts/internal'
import { recordTtlMs } from '@postern/contracts/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCacheCodec } from './codec.ts'

const first = { id: 'first', secret: randomBytes(32) }
const second = { id: 'second', secret: randomBytes(32) }
const codec = createCacheCodec({ current: first })

const record: KeyRecord = {
  hash: 'a'.repeat(64),
  id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
  tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002',
  tenantName: 'Harbourline',
  tenantStatus: 'active',
  tenantVersion: 1,
  label: 'nightly | export\n{}',
  lastFour: 'x7Qp',
  scopes: ['read:findings'],
  allowedAddresses: ['203.0.113.0/24'],
  expiresAt: 1_795_000_000_000,
  revoked: false,
  version: 3,
  readAt: 1_794_000_000_000,
  keyLimit: 6000,
  tenantLimit: 60_000,
}
const revocation: Revocation = { kind: 'key', seq: 7, hash: record.hash, version: 4, revoked: true }

describe('a record from Redis is treated as missing', () => {
  const { value } = codec.encodeRecord(record)

  test('control: the authentic record is read', () => {
    expect(codec.decodeRecord(record.hash, value)).toEqual(record)
  })

  test('when any of its characters has changed', () => {
    for (let at = 0; at < value.length; at += 1) {
      const changed = value.slice(0, at) + (value[at] === '1' ? '2' : '1') + value.slice(at + 1)
      if (codec.decodeRecord(record.hash, changed) !== undefined) expect.fail(`changed at ${at}, and was read`)
    }
    expect(value.length).toBeGreaterThan(300)
  })

  test('when it belongs to another key', () => {
    expect(codec.decodeRecord('b'.repeat(64), value)).toBeUndefined()
  })

  test('when it was signed with another secret under the same id', () => {
    const stranger = createCacheCodec({ current: { id: 'first', secret: randomBytes(32) } })
    expect(codec.decodeRecord(record.hash, stranger.encodeRecord(record).value)).toBeUndefined()
  })

  test('when its secret is no longer in the key ring', () => {
    expect(createCacheCodec({ current: second }).decodeRecord(record.hash, value)).toBeUndefined()
  })

  test('when it is a message, and the reverse', () => {
    expect(codec.decodeRecord(record.hash, codec.encodeMessage(revocation))).toBeUndefined()
    expect(codec.decodeMessage(value)).toBeUndefined()
    expect(codec.decodeMessage(value.slice(value.indexOf('|') + 1))).toBeUndefined()
  })

  test('when it is any other text, without throwing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(codec.decodeRecord(record.hash, text)).toBeUndefined()
        expect(codec.decodeMessage(text)).toBeUndefined()
      }),
    )
    expect(codec.decodeMessage(codec.encodeMessage(revocation) + ' '.repeat(40_000))).toBeUndefined()
  })
})

describe('a record', () => {
  test('is accepted under the previous secret while the ring has it', () => {
    const { value } = codec.encodeRecord(record)
    expect(createCacheCodec({ current: second, previous: first }).decodeRecord(record.hash, value)).toEqual(record)
  })

  test('expires a fixed time after it was read from the database', () => {
    expect(codec.encodeRecord(record).endsAt).toBe(record.readAt + recordTtlMs)
  })
})

describe('a message', () => {
  test('is decoded unchanged', () => {
    const tenant: Revocation = { kind: 'tenant', seq: 8, tenantId: record.tenantId, version: 2 }
    expect(codec.decodeMessage(codec.encodeMessage(revocation))).toEqual(revocation)
    expect(codec.decodeMessage(codec.encodeMessage(tenant))).toEqual(tenant)
  })

  test('is rejected when any of its characters has changed', () => {
    const text = codec.encodeMessage(revocation)
    for (let at = 0; at < text.length; at += 1) {
      const changed = text.slice(0, at) + (text[at] === '1' ? '2' : '1') + text.slice(at + 1)
      if (codec.decodeMessage(changed) !== undefined) expect.fail(`changed at ${at}, and was read`)
    }
    expect(text.length).toBeGreaterThan(100)
  })
})
