import { inspect } from 'node:util'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { generateKey, keyChecksum, keyLength, keyPrefix, parseKey } from './format.ts'
import { hashKey } from './hash.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

const secrets = fc
  .array(fc.constantFrom(...base62), { minLength: 43, maxLength: 43 })
  .map((characters) => characters.join(''))

/** Well-formed keys with any secret, also with ones that are too large for generateKey. */
const keys = secrets.map((secret) => keyPrefix + secret + keyChecksum(keyPrefix + secret))

describe('a text that is not a key is rejected', () => {
  const good = keyPrefix + 'A'.repeat(43) + keyChecksum(keyPrefix + 'A'.repeat(43))

  test('control: the unchanged key is accepted', () => {
    expect(parseKey(good)?.value).toBe(good)
  })

  test.each([
    ['nothing', ''],
    ['only the prefix', keyPrefix],
    ['a key without its last character', good.slice(0, -1)],
    ['a key with an extra character', `${good}0`],
    ['a line feed at the end', `${good}\n`],
    ['a line feed in place of the last character', `${good.slice(0, -1)}\n`],
    ['a space before', ` ${good.slice(0, -1)}`],
    ['the prefix in capitals', good.replace('postern_', 'POSTERN_')],
    ['another prefix', good.replace('postern_', 'postman_')],
    ['a NUL inside', good.replace('A', '\0')],
    ['a hyphen inside', good.replace('A', '-')],
    ['an underscore inside', good.replace('A', '_')],
    ['a fullwidth letter inside', good.replace('A', 'Ａ')],
    ['a Cyrillic letter inside', good.replace('A', 'А')],
    ['two keys, comma separated', `${good},${good}`],
    ['a megabyte', 'A'.repeat(1 << 20)],
    ['a key and a megabyte', good + 'A'.repeat(1 << 20)],
  ])('%s', (_name, text) => {
    expect(parseKey(text)).toBeUndefined()
  })

  test.each([
    ['another prefix', `postman_${'A'.repeat(43)}`],
    ['the prefix in capitals', `POSTERN_${'A'.repeat(43)}`],
    ['a hyphen inside', `${keyPrefix}-${'A'.repeat(42)}`],
    ['a NUL inside', `${keyPrefix}\0${'A'.repeat(42)}`],
    ['a line feed inside', `${keyPrefix}\n${'A'.repeat(42)}`],
    ['a Cyrillic letter inside', `${keyPrefix}А${'A'.repeat(42)}`],
  ])('%s, with a valid checksum', (_name, payload) => {
    expect(parseKey(payload + keyChecksum(payload))).toBeUndefined()
  })

  test('any key with one character replaced by any ASCII character', () => {
    const { value } = generateKey()
    let tried = 0
    for (let at = 0; at < value.length; at += 1) {
      for (let code = 0; code < 128; code += 1) {
        const typo = value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1)
        if (typo === value) continue
        tried += 1
        if (parseKey(typo) !== undefined) expect.fail(`a typo at place ${at} was accepted`)
      }
    }
    expect(tried).toBe(keyLength * 127)
  })

  test('any key with one character replaced', () => {
    fc.assert(
      fc.property(keys, fc.nat(keyLength - 1), fc.constantFrom(...base62), (key, at, character) => {
        fc.pre(key[at] !== character)
        expect(parseKey(key.slice(0, at) + character + key.slice(at + 1))).toBeUndefined()
      }),
      { numRuns: 2000 },
    )
  })

  test('any key with two neighbouring characters swapped', () => {
    fc.assert(
      fc.property(keys, fc.integer({ min: 8, max: 49 }), (key, at) => {
        const first = key.charAt(at)
        const second = key.charAt(at + 1)
        fc.pre(first !== second)
        expect(parseKey(key.slice(0, at) + second + first + key.slice(at + 2))).toBeUndefined()
      }),
      { numRuns: 2000 },
    )
  })

  test('any random text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80, unit: 'binary' }), (text) => {
        expect(parseKey(text)).toBeUndefined()
      }),
    )
  })
})

describe('a key', () => {
  test('has the prefix, 43 characters of secret and 6 of checksum', () => {
    expect(generateKey().value).toMatch(/^postern_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/)
    expect(generateKey().value).toHaveLength(keyLength)
  })

  test('is parsed with the hash and last four characters that it was created with', () => {
    for (let round = 0; round < 200; round += 1) {
      const made = generateKey()
      const parsed = parseKey(made.value)
      expect(parsed?.value).toBe(made.value)
      expect(parsed?.hash).toBe(made.hash)
      expect(made.hash).toBe(hashKey(made.value))
      expect(made.value.endsWith(made.lastFour)).toBe(true)
      expect(made.lastFour).toHaveLength(4)
    }
  })

  test('is never created twice, and is random at every place of the secret except the first', () => {
    const made = Array.from({ length: 500 }, () => generateKey().value)
    expect(new Set(made).size).toBe(made.length)
    for (let at = keyPrefix.length + 1; at < keyPrefix.length + 43; at += 1) {
      expect(new Set(made.map((value) => value[at])).size).toBeGreaterThan(40)
    }
  })

  test('has a checksum equal to the CRC-32 of everything before it', () => {
    // The check value of CRC-32/ISO-HDLC for "123456789" is cbf43926, in decimal 3421780262.
    expect(keyChecksum('123456789')).toBe('3jZRME')
    expect(keyChecksum('')).toBe('000000')
  })

  test('with the right form and checksum is always accepted', () => {
    fc.assert(
      fc.property(keys, (key) => {
        expect(parseKey(key)?.value).toBe(key)
      }),
    )
  })
})

describe('a parsed key in a log', () => {
  const { value, lastFour } = generateKey()
  const parsed = parseKey(value)

  test.each([
    ['inspected', inspect({ parsed }, { showHidden: true, depth: 9 })],
    ['serialised', JSON.stringify({ parsed, copy: { ...parsed } })],
    ['put into a text', `refused ${String(parsed)}`],
    ['listed by its members', JSON.stringify(Object.entries(parsed ?? {}))],
  ])('never shows its secret: %s', (_name, printed) => {
    expect(printed).not.toContain(value.slice(0, 20))
    expect(printed).not.toContain(value.slice(-12))
  })

  test('shows its mask', () => {
    expect(String(parsed)).toBe(`•••••${lastFour}`)
    expect(JSON.stringify([parsed])).toBe(`["•••••${lastFour}"]`)
    expect(inspect([parsed])).toBe(`[ •••••${lastFour} ]`)
  })
})
