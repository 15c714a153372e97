import { randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { assertKeyName, findKey, parseKeyRing } from './key-ring.ts'

const secret = randomBytes(32)
const other = randomBytes(48)
const encoded = secret.toString('base64url')

describe('a key ring is refused, and the error does not show it:', () => {
  test.each([
    ['nothing', ''],
    ['a secret without an id', encoded],
    ['an empty id', `:${encoded}`],
    ['an id with a dot, which separates the parts of an assertion', `a.b:${encoded}`],
    ['an id of 33 characters', `${'a'.repeat(33)}:${encoded}`],
    ['no secret', 'a:'],
    ['a secret of 31 bytes', `a:${randomBytes(31).toString('base64url')}`],
    ['a secret of 65 bytes', `a:${randomBytes(65).toString('base64url')}`],
    ['a secret in hexadecimal with a stray character', `a:${'0f'.repeat(32)}!`],
    ['a padded secret', `a:${encoded}=`],
    ['a secret cut in the middle', `a:${encoded.slice(0, -1)}`],
    ['a space inside the secret', `a:${encoded.slice(0, 9)} ${encoded.slice(9)}`],
    ['three parts', `a:${encoded}:x`],
    ['a comma at the end', `a:${encoded},`],
    ['three keys', `a:${encoded},b:${other.toString('base64url')},c:${randomBytes(32).toString('base64url')}`],
    ['two keys of one id', `a:${encoded},a:${other.toString('base64url')}`],
    ['two keys of one secret', `a:${encoded},b:${encoded}`],
  ])('%s', (_name, text) => {
    expect(() => parseKeyRing(text)).toThrow(TypeError)
    expect(() => parseKeyRing(text)).not.toThrow(encoded.slice(0, 8))
  })
})

describe('a key ring', () => {
  test('of one key has no previous key', () => {
    expect(parseKeyRing(`a:${encoded}`)).toEqual({ current: { id: 'a', secret } })
  })

  test('of two keys has the current one first', () => {
    const ring = parseKeyRing(` new_1:${encoded}, old-1:${other.toString('base64url')}\n`)
    expect(ring).toEqual({ current: { id: 'new_1', secret }, previous: { id: 'old-1', secret: other } })
  })

  test('gives a key by its id and no other', () => {
    const ring = parseKeyRing(`a:${encoded},b:${other.toString('base64url')}`)
    expect(findKey(ring, 'a')?.secret).toEqual(secret)
    expect(findKey(ring, 'b')?.secret).toEqual(other)
    for (const id of ['', 'A', 'c', '__proto__']) expect(findKey(ring, id)).toBeUndefined()
  })

  test('is read back from what it is written as', () => {
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
  test.each(['', 'Findings', 'a:b', 'a b', 'a"', 'a\n', 'a'.repeat(33)])('%j is refused', (name) => {
    expect(() => assertKeyName(name)).toThrow(TypeError)
  })

  test.each(['findings', 'sync-universe', 'internal'])('%j is accepted', (name) => {
    expect(() => assertKeyName(name)).not.toThrow()
  })
})
