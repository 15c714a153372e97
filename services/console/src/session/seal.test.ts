import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createSeal } from './seal.ts'

const key = (id: string) => ({ id, secret: randomBytes(32) })
const [one, other] = [key('k1'), key('k2')]
const seal = createSeal({ current: one }, 'session')
const sealed = seal.close('a text', 'here', 'bearer')

describe('what is sealed', () => {
  test.each([
    ['at another place', () => seal.open(sealed, 'there', 'bearer')],
    ['for another bearer', () => seal.open(sealed, 'here', 'somebody')],
    ['for another purpose', () => createSeal({ current: one }, 'attempt').open(sealed, 'here', 'bearer')],
    [
      'by another secret of the same name',
      () => createSeal({ current: key('k1') }, 'session').open(sealed, 'here', 'bearer'),
    ],
    ['when its key is retired', () => createSeal({ current: other }, 'session').open(sealed, 'here', 'bearer')],
    ['if it was truncated', () => seal.open(sealed.slice(0, -4), 'here', 'bearer')],
    ['if it is another text', () => seal.open('v1.k1.AAAA', 'here', 'bearer')],
  ])('does not open %s', (_title, open) => {
    expect(open()).toBeUndefined()
  })

  test('opens at its place, also with the previous key', () => {
    expect(seal.open(sealed, 'here', 'bearer')).toBe('a text')
    const rotated = createSeal({ current: other, previous: one }, 'session')
    expect(rotated.open(sealed, 'here', 'bearer')).toBe('a text')
  })

  test('detects the change of every byte', () => {
    const [prefix, body] = [sealed.slice(0, 6), sealed.slice(6)]
    const bytes = Buffer.from(body, 'base64url')
    for (const index of bytes.keys()) {
      const copy = Buffer.from(bytes)
      copy[index] = (copy[index] ?? 0) ^ 1
      expect(seal.open(prefix + copy.toString('base64url'), 'here', 'bearer')).toBeUndefined()
    }
  })
})
