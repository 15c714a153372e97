import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { parseContentDigest } from './content-digest.ts'

describe('Content-Digest', () => {
  test.each([
    ['', 'nothing'],
    ['sha-256', 'no value'],
    ['sha-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=', 'no colons'],
    ['sha-256=::', 'no bytes'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBA==:', '31 bytes'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPF=:', 'base64 with stray bits'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:;q=1', 'a parameter'],
    ['sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4=:', 'another algorithm alone'],
    [`sha-256=:${'A'.repeat(2000)}:`, 'too much'],
    [
      'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:, sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:',
      'the same algorithm twice',
    ],
  ])('%s is refused: %s', (header) => {
    expect(parseContentDigest(header).kind).toBe('malformed')
  })

  test('without the header nothing is asked for', () => {
    expect(parseContentDigest(undefined)).toEqual({ kind: 'none' })
  })

  test('the example of RFC 9530 appendix B.1 is the SHA-256 of its content', () => {
    const content = '{"hello": "world"}\n'
    expect(parseContentDigest('sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:')).toEqual({
      kind: 'sha-256',
      hex: createHash('sha256').update(content).digest('hex'),
    })
  })

  test('sha-256 is found beside other algorithms', () => {
    const header = 'unixsum=:AAA=:, sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
    expect(parseContentDigest(header)).toEqual({
      kind: 'sha-256',
      hex: '5f8f04f6a3a892aaabbddb6cf273894493773960d4a325b105fee46eef4304f1',
    })
  })
})
