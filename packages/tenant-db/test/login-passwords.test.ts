import { describe, expect, test } from 'vitest'
import { formatLoginPasswords, loginsOf, parseLoginPasswords } from '../src/index.ts'

const [one, two] = ['Aa0_-Zz9Aa0_-Zz9', 'bbbbbbbbbbbbbbbbbb']
const sixteen = 'c'.repeat(16)

describe('the passwords of a role', () => {
  test.each([
    ['one password for the first login', one, [{ login: 'a', password: one }]],
    ['one by its login', `a:${one}`, [{ login: 'a', password: one }]],
    ['only one for the second login', `b:${two}`, [{ login: 'b', password: two }]],
    [
      'two, in their order',
      `a:${one},b:${two}`,
      [
        { login: 'a', password: one },
        { login: 'b', password: two },
      ],
    ],
    [
      'two, the second login first',
      `b:${two},a:${one}`,
      [
        { login: 'b', password: two },
        { login: 'a', password: one },
      ],
    ],
    [
      'two of the minimum length',
      `b:${sixteen},a:${sixteen}`,
      [
        { login: 'b', password: sixteen },
        { login: 'a', password: sixteen },
      ],
    ],
  ])('are %s', (_what, text, passwords) => {
    expect(parseLoginPasswords(text)).toEqual(passwords)
  })

  test.each([
    ['of an unknown login', `c:${one}`],
    ['that is too short', `a:${'c'.repeat(15)}`],
    ['whose second part is too short', `a:${one},b:${'c'.repeat(15)}`],
    ['of one login twice', `a:${one},a:${two}`],
    ['with a character that none has', `a:${one}!`],
    ['with a third', `a:${one},b:${two},a:${one}`],
    ['with something before it', ` a:${one}`],
    ['with something behind it', `a:${one} `],
    ['with an end of line', `a:${one}\n`],
    ['of an unknown second login', `a:${one},c:${two}`],
    ['that is empty', ''],
  ])('%s are one password, unchanged', (_what, text) => {
    expect(parseLoginPasswords(text)).toEqual([{ login: 'a', password: text }])
  })

  test('are found by login; the other login has none', () => {
    expect(loginsOf(one)).toEqual({ a: one, b: undefined })
    expect(loginsOf(`b:${two}`)).toEqual({ a: undefined, b: two })
    expect(loginsOf(`b:${two},a:${one}`)).toEqual({ a: one, b: two })
  })

  test.each([`a:${one}`, `b:${two}`, `a:${one},b:${two}`, `b:${two},a:${one}`])(
    'are formatted like their input: %s',
    (text) => {
      expect(formatLoginPasswords(parseLoginPasswords(text))).toBe(text)
    },
  )
})
