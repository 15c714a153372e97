import { describe, expect, test } from 'vitest'

import {
  customSchema,
  dateSchema,
  line,
  momentSchema,
  parseResourceAddress,
  personRefSchema,
  resourceAddressSchema,
  text,
  uuidSchema,
} from './common.ts'

const id = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

describe('a resource address is rejected', () => {
  test.each([
    '',
    'x',
    `${id} `,
    `${id}\n`,
    `{${id}}`,
    'ref:',
    'ref:f-2026-0042',
    'ref:F-2026-0042\n',
    "ref:F-2026-0042'--",
    'REF:F-2026-0042',
    'ext:',
    'ext:a\u0000b',
    'ext:a\nb',
    `ext:${'x'.repeat(256)}`,
    'ext64:',
    'ext64:YQ==',
    // The same letter in another spelling, no UTF-8, a line feed, and more than an external id holds.
    'ext64:YR',
    'ext64:_w',
    'ext64:YQpi',
    `ext64:${Buffer.from('x'.repeat(256)).toString('base64url')}`,
    '../findings',
  ])('%j', (address) => {
    expect(resourceAddressSchema.safeParse(address).success).toBe(false)
  })
})

describe('a resource address', () => {
  test.each([
    [id, { by: 'id', id }],
    [id.toUpperCase(), { by: 'id', id }],
    ['ref:F-2026-0042', { by: 'reference', reference: 'F-2026-0042' }],
    ['ext:ref:F-1', { by: 'external-id', externalId: 'ref:F-1' }],
    ['ext:Prüfung 7/ä', { by: 'external-id', externalId: 'Prüfung 7/ä' }],
    [
      `ext64:${Buffer.from('Prüfung 7/ä\\%2f;').toString('base64url')}`,
      { by: 'external-id', externalId: 'Prüfung 7/ä\\%2f;' },
    ],
  ])('%j selects one resource in one way', (address, selection) => {
    expect(parseResourceAddress(resourceAddressSchema.parse(address))).toEqual(selection)
  })
})

describe('a line of text is rejected', () => {
  test.each([
    '',
    '   ',
    'a\u0000b',
    'a\nb',
    'a\tb',
    'a\u0085b',
    'a\u2028b',
    'a\u202eb',
    'a\u2066b',
    'a\u206ab',
    'a\ud800',
    'x'.repeat(11),
  ])('%j', (value) => {
    expect(line(1, 10).safeParse(value).success).toBe(false)
  })

  test('accepts and trims other lines', () => {
    expect(line(1, 12).parse('  Zoë\u2027\u202f✓ 木 ')).toBe('Zoë\u2027\u202f✓ 木')
  })
})

describe('a text is rejected', () => {
  test.each(['', 'a\u0000b', '\udc00', 'x'.repeat(11)])('%j', (value) => {
    expect(text(1, 10).safeParse(value).success).toBe(false)
  })

  test('accepts other text unchanged', () => {
    expect(text(1, 10).parse(' a\n\tb ')).toBe(' a\n\tb ')
  })
})

describe('an id', () => {
  test('is accepted in any case and stored in lower case', () => {
    expect(uuidSchema.parse(id.toUpperCase())).toBe(id)
  })
})

describe('a person', () => {
  test.each([{}, { email: 'nobody' }, { name: '' }, { name: 'Zoë', role: 'admin' }])('is refused as %o', (person) => {
    expect(personRefSchema.safeParse(person).success).toBe(false)
  })

  test.each([{ person_id: id }, { email: 'zoe@example.com' }, { name: 'Zoë' }])('is known as %o', (person) => {
    expect(personRefSchema.parse(person)).toEqual(person)
  })
})

describe('custom fields', () => {
  test.each([
    ['51 of them', Object.fromEntries(Array.from({ length: 51 }, (_none, n) => [`f${n}`, n]))],
    ['one that nests', { a: { b: 1 } }],
    ['a list', { a: [1] }],
    ['a name of 65 characters', { ['n'.repeat(65)]: 1 }],
    ['a number without end', { a: Number.POSITIVE_INFINITY }],
    ['a NUL', { a: '\u0000' }],
  ])('are rejected: %s', (_name, fields) => {
    expect(customSchema.safeParse(fields).success).toBe(false)
  })

  test('are accepted: 50 of four types', () => {
    const values = ['text', 1.5, true, null]
    const fields = Object.fromEntries(Array.from({ length: 50 }, (_none, n) => [`f${n}`, values[n % 4]]))
    expect(customSchema.parse(fields)).toEqual(fields)
  })
})

describe('dates and times', () => {
  test.each(['2026-02-29', '2026-13-01', '2026-04-31', '0000-02-29', '0000-12-31', '2026-1-1', '10000-01-01'])(
    '%s is no date',
    (date) => {
      expect(dateSchema.safeParse(date).success).toBe(false)
    },
  )

  test.each([
    '2026-02-29T00:00:00Z',
    '2026-11-21T24:00:00Z',
    '2026-11-21T23:59:60Z',
    '2026-11-21T10:00:00',
    '0000-06-01T00:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59.999-00:01',
    '2026-11-21T00:00:00-23:59',
    '2026-11-21T00:00:00+15:00',
  ])('%s cannot be stored as a time', (moment) => {
    expect(momentSchema.safeParse(moment).success).toBe(false)
    // One fault, one remedy: what is no time has neither a year nor an offset that could be wrong.
    expect(momentSchema.safeParse(moment).error?.issues).toHaveLength(1)
  })

  test.each(['2024-02-29T23:59:59.123456789+14:00', '0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z'])(
    '%s is one',
    (moment) => {
      expect(momentSchema.safeParse(moment).success).toBe(true)
    },
  )

  test('a time may have `t` and `z` in lower case (RFC 3339 §5.6), and is stored in upper case', () => {
    expect(momentSchema.parse('2026-11-21t09:30:00.5z')).toBe('2026-11-21T09:30:00.5Z')
  })
})
