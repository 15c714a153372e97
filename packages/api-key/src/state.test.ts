import { describe, expect, test } from 'vitest'

import { keyState } from './state.ts'

const noon = new Date('2026-03-01T12:00:00.000Z')
const before = new Date(noon.valueOf() - 1)
const after = new Date(noon.valueOf() + 1)

describe('the state of a key', () => {
  test('is revoked when it is both revoked and expired', () => {
    expect(keyState({ revokedAt: before, expiresAt: before }, noon)).toBe('revoked')
  })

  test('is revoked when the date of revocation is in the future', () => {
    expect(keyState({ revokedAt: after, expiresAt: after }, noon)).toBe('revoked')
  })

  test('is revoked when the time of revocation is 0', () => {
    expect(keyState({ revokedAt: 0, expiresAt: after }, noon)).toBe('revoked')
  })

  test('is expired in the exact millisecond of its expiry', () => {
    expect(keyState({ revokedAt: null, expiresAt: noon }, noon)).toBe('expired')
  })

  test('is active one millisecond before its expiry', () => {
    expect(keyState({ revokedAt: null, expiresAt: after }, noon)).toBe('active')
  })

  test.each([
    ['the expiry', new Date(Number.NaN), noon],
    ['the clock', after, new Date(Number.NaN)],
  ])('is expired when %s is an invalid date', (_name, expiresAt, now) => {
    expect(keyState({ revokedAt: null, expiresAt }, now)).toBe('expired')
  })

  test('is the same for dates and milliseconds', () => {
    expect(keyState({ revokedAt: null, expiresAt: after.valueOf() }, noon)).toBe('active')
    expect(keyState({ revokedAt: null, expiresAt: noon.valueOf() }, noon.valueOf())).toBe('expired')
  })
})
