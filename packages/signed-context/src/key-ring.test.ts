import { randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { assertKeyName, findKey, parseKeyRing } from './key-ring.ts'

const secret = randomBytes(32)
const other = randomBytes(48)
const encoded = secret.toString('base64url')

const idRule = (place: string): string => `the id of the ${place} key must be 1 to 32 of A-Z a-z 0-9 _ -`
const lengthRule = (place: string): string => `the secret of the ${place} key must have 32 to 64 bytes`
const spellingRule = 'the secret of the current key must be URL-safe base64 without padding'

describe('a key ring is rejected with an error that says why and never shows it:', () => {
  test.each([
    ['nothing', '', 'the current key of a key ring must have the form id:secret'],
    ['a secret without an id', encoded, 'the current key of a key ring must have the form id:secret'],
    ['an empty id', `:${encoded}`, idRule('current')],
    ['an id with a dot, which separates the parts of an assertion', `a.b:${encoded}`, idRule('current')],
    ['an id of 33 characters', `${'a'.repeat(33)}:${encoded}`, idRule('current')],
    ['no secret', 'a:', lengthRule('current')],
    ['a secret of 31 bytes', `a:${randomBytes(31).toString('base64url')}`, lengthRule('current')],
    ['a secret of 65 bytes', `a:${encoded},b:${randomBytes(65).toString('base64url')}`, lengthRule('previous')],
    ['a secret in hexadecimal with a stray character', `a:${'0f'.repeat(32)}!`, spellingRule],
    ['a padded secret', `a:${encoded}=`, spellingRule],
    ['a secret cut in the middle', `a:${encoded.slice(0, -2)}`, spellingRule],
    ['a space inside the secret', `a:${encoded.slice(0, 9)} ${encoded.slice(9)}`, spellingRule],
    ['three parts', `a:${encoded}:x`, 'the current key of a key ring must have the form id:secret'],
    ['a comma at the end', `a:${encoded},`, 'the previous key of a key ring must have the form id:secret'],
    ['three keys', `a:${encoded},b:${encoded},c:${encoded}`, 'a key ring holds at most two keys'],
    ['two keys of one id', `a:${encoded},a:${other.toString('base64url')}`, 'must have different ids'],
    ['two keys of one secret', `a:${encoded},b:${encoded}`, 'must not share a secret'],
  ])('%s', (_name, text, fault) => {
    expect(() => parseKeyRing(text)).toThrow(fault)
    expect(() => parseKeyRing(text)).toThrow(TypeError)
    expect(() => parseKeyRing(text)).not.toThrow(encoded.slice(0, 8))
  })
})

describe('a key ring', () => {
  test('with one key has no previous key', () => {
    expect(parseKeyRing(`a:${encoded}`)).toEqual({ current: { id: 'a', secret } })
  })

  test('with two keys has the current one first', () => {
    const ring = parseKeyRing(` new_1:${encoded}, old-1:${other.toString('base64url')}\n`)
    expect(ring).toEqual({ current: { id: 'new_1', secret }, previous: { id: 'old-1', secret: other } })
  })

  test('finds a key only by its own id', () => {
    const ring = parseKeyRing(`a:${encoded},b:${other.toString('base64url')}`)
    expect(findKey(ring, 'a')?.secret).toEqual(secret)
    expect(findKey(ring, 'b')?.secret).toEqual(other)
    for (const id of ['', 'A', 'c', '__proto__']) expect(findKey(ring, id)).toBeUndefined()
  })

  test('is parsed back from its text', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[A-Za-z0-9_-]{1,32}$/),
        fc.uint8Array({ minLength: 32, maxLength: 64 }),
        (id, bytes) => {
          const ring = parseKeyRing(`${id}:${Buffer.from(bytes).toString('base64url')}`)
          expect(ring.current.id).toBe(id)
          expect([...ring.current.secret]).toEqual([...bytes])
        },
      ),
    )
  })
})

describe('a key name', () => {
  test.each(['', 'Findings', 'a:b', 'a b', 'a"', 'a\n', 'a'.repeat(33)])('%j is rejected', (name) => {
    expect(() => assertKeyName(name)).toThrow('a key name must be 1 to 32 of a-z 0-9 -')
  })

  test.each(['findings', 'sync-universe', 'internal'])('%j is accepted', (name) => {
    expect(() => assertKeyName(name)).not.toThrow()
  })
})
