import { describe, expect, test } from 'vitest'
import { parseEnd, parseExpiry, parseStart } from './expiry.ts'

describe('--expires', () => {
  test.each([
    '',
    '0d',
    '31d',
    '2y',
    '30D',
    'never',
    '2027-06-31',
    '2027-02-29',
    '27-06-30',
    '2027-06-30T00:00:00',
    '2027-02-30T00:00:00Z',
    '2027-13-01T00:00:00Z',
  ])('refuses %j, which is no unambiguous time', (text) => {
    expect(() => parseExpiry(text)).toThrow('--expires must be 30d, 90d, 1y, a date')
  })

  test.each(['30d', '90d', '1y'] as const)('accepts the choice %s', (text) => {
    expect(parseExpiry(text)).toEqual({ expires_in: text })
  })

  test('reads a date as the last second of its day in UTC', () => {
    expect(parseExpiry('2028-02-29')).toEqual({ expires_in: 'custom', expires_at: '2028-02-29T23:59:59Z' })
  })

  test.each(['2027-06-30T00:00:00Z', '2027-06-30T02:00:00.5+02:00', '2027-06-30t00:00:00z'])(
    'accepts the time %s unchanged',
    (text) => {
      expect(parseExpiry(text)).toEqual({ expires_in: 'custom', expires_at: text })
    },
  )
})

describe('the time of an option', () => {
  test('is the first or the last second of a date in UTC', () => {
    expect(parseStart('2028-02-29', '--since')).toBe('2028-02-29T00:00:00Z')
    expect(parseEnd('2028-02-29')).toBe('2028-02-29T23:59:59Z')
  })

  test.each(['30d', '2027-02-29', 'yesterday'])('is refused as %j, with the second that a date would mean', (text) => {
    expect(() => parseStart(text, '--since')).toThrow(
      '--since must be a date such as 2027-06-30 (its first second in UTC)',
    )
    expect(() => parseEnd(text)).toThrow('--expires must be a date such as 2027-06-30 (its last second in UTC)')
  })
})
