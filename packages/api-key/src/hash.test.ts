import { describe, expect, test } from 'vitest'

import { hashKey, isKeyHash } from './hash.ts'

describe('the hash of a key', () => {
  test.each([
    // FIPS 180-4, example "abc", and the empty message.
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ])('is SHA-256 in lower-case hexadecimal: %j', (text, expected) => {
    expect(hashKey(text)).toBe(expected)
  })

  test('is recognized as a key hash', () => {
    expect(isKeyHash(hashKey('abc'))).toBe(true)
  })

  test.each([
    ['63 characters', 'a'.repeat(63)],
    ['65 characters', 'a'.repeat(65)],
    ['upper case', 'A'.repeat(64)],
    ['a letter that is not hexadecimal', 'g'.repeat(64)],
    ['a line feed at the end', `${'a'.repeat(64)}\n`],
    ['nothing', ''],
  ])('is not mistaken for %s', (_name, text) => {
    expect(isKeyHash(text)).toBe(false)
  })
})
