import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { assertDigest } from './content-digest.ts'
import { ProblemError } from './problem.ts'

/** RFC 9530 appendix B.1. */
const content = '{"hello": "world"}\n'
const sha256 = 'RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg='
const sha512 = createHash('sha512').update(content).digest('base64')

function refusalOf(header: string | undefined, body: string): string | undefined {
  try {
    assertDigest(header, Buffer.from(body))
    return undefined
  } catch (error) {
    return error instanceof ProblemError ? error.code : String(error)
  }
}

describe('a body', () => {
  test.each([undefined, `sha-256=:${sha256}:`, `sha-512=:${sha512}:`, `md5=:AAAA:, sha-512=:${sha512}:`])(
    'is taken with %s',
    (header) => {
      expect(refusalOf(header, content)).toBeUndefined()
    },
  )

  test.each([`sha-256=:${sha256}:`, `sha-512=:${sha512}:`, `md5=:AAAA:, sha-512=:${sha512}:`])(
    'of other bytes, or of none, is refused with %s',
    (header) => {
      expect([refusalOf(header, content.trim()), refusalOf(header, '')]).toEqual(['digest_mismatch', 'digest_mismatch'])
    },
  )

  test('is rejected if one of two digests differs', () => {
    const other = createHash('sha512').update('').digest('base64')
    expect(refusalOf(`sha-256=:${sha256}:, sha-512=:${other}:`, content)).toBe('digest_mismatch')
  })

  test.each(['', 'garbage', 'md5=:AAAA:', `sha-256=${sha256}`])(
    'is refused with what cannot be checked: %s',
    (header) => {
      expect(refusalOf(header, content)).toBe('bad_request')
    },
  )
})
