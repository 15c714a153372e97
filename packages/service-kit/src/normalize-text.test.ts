import { describe, expect, test } from 'vitest'
import { DuplicateNameError, normalizeBody, normalizeTexts } from './normalize-text.ts'

const composed = 'M\u00fcnchen'
const decomposed = 'Mu\u0308nchen'

describe('normalizeTexts', () => {
  test('composes texts and names at every depth', () => {
    expect(normalizeTexts([{ [decomposed]: [decomposed, { a: decomposed }] }, decomposed])).toEqual([
      { [composed]: [composed, { a: composed }] },
      composed,
    ])
  })

  test.each([
    ['an ASCII text', 'Munich'],
    ['a composed text', composed],
    ['a list', [1, null, true, composed]],
    ['an object', { a: { b: composed } }],
    ['bytes', Buffer.from(decomposed)],
    ['a date', new Date(0)],
    ['nothing', undefined],
  ])('returns %s as it is', (_name, value) => {
    expect(normalizeTexts(value)).toBe(value)
  })

  test('composes what has no mark of its own: Hangul, compatibility ideographs, singletons', () => {
    expect(normalizeTexts(['\u1112\u1161\u11ab', '\uf900', '\u212b', '\u2126'])).toEqual(['한', '豈', 'Å', 'Ω'])
  })

  test('rejects two names that become one', () => {
    expect(() => normalizeTexts({ a: [{ [composed]: 1, [decomposed]: 2 }] })).toThrow(DuplicateNameError)
    expect(normalizeTexts({ [composed]: 1, other: 2 })).toEqual({ [composed]: 1, other: 2 })
  })
})

describe('normalizeBody', () => {
  test('does not change the exact members', () => {
    const body = { name: decomposed, secrets: { password: decomposed }, inner: { secrets: decomposed } }
    expect(normalizeBody(body, ['secrets'])).toEqual({
      name: composed,
      secrets: { password: decomposed },
      inner: { secrets: composed },
    })
  })

  test('names the repeated member', () => {
    const body = { custom: { [composed]: 1, [decomposed]: 2 } }
    expect(() => normalizeBody(body)).toThrow(
      expect.objectContaining({
        code: 'malformed_json',
        options: expect.objectContaining({
          errors: [expect.objectContaining({ pointer: `/custom/${decomposed}`, code: 'duplicate_key' })],
        }),
      }),
    )
  })

  test('keeps __proto__ as a member', () => {
    const body: unknown = JSON.parse('{"__proto__":{"name":"a"},"secrets":{}}')
    const normalized = normalizeBody(body, ['secrets'])
    expect(Object.keys(Object(normalized))).toEqual(['secrets', '__proto__'])
    expect(Object.getPrototypeOf(normalized)).toBe(Object.prototype)
  })

  test('lets exact members hold two forms of one name', () => {
    const body = { secrets: { [composed]: '1', [decomposed]: '2' } }
    expect(normalizeBody(body, ['secrets'])).toEqual(body)
  })
})
