import { describe, expect, test } from 'vitest'
import { parseContentDigest } from './content-digest.ts'

/** RFC 9530 appendix B.1. */
const sha256 = 'RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg='
const sha512 = Buffer.alloc(64, 1).toString('base64')

describe('Content-Digest', () => {
  test.each([
    ['', 'nothing'],
    ['sha-256', 'no value'],
    ['sha-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=', 'no colons'],
    ['sha-256=::', 'no bytes'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBA==:', '31 bytes'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPF=:', 'base64 with stray bits'],
    ['sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:;q=1', 'a parameter'],
    ['sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4=:', '32 bytes of 64'],
    ['md5=:1B2M2Y8AsgTpgAmY7PhCfg==:', 'only an algorithm that is not checked'],
    ['SHA-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:', 'a key in capitals, which RFC 9651 does not have'],
    [`sha-256=:${'A'.repeat(2000)}:`, 'too much'],
    [
      'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:, sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:',
      'the same algorithm twice',
    ],
  ])('%s is rejected: %s', (header) => {
    expect(parseContentDigest(header).kind).toBe('malformed')
  })

  test('a missing header requests no check', () => {
    expect(parseContentDigest(undefined)).toEqual({ kind: 'none' })
  })

  test('the example of RFC 9530 appendix B.1 is the SHA-256 of its content', () => {
    const hex = '44aff4ab2d7c3250525675a08f0cfa9591168cffe51791c5f5bbc417c15a6c38'
    expect(parseContentDigest(`sha-256=:${sha256}:`)).toEqual({ kind: 'given', digests: new Map([['sha-256', hex]]) })
  })

  test('the requested algorithm is found among others', () => {
    const header = `unixsum=:AAA=:, sha-256=:${sha256}:, sha-512=:${sha512}:`
    const [every, one] = [parseContentDigest(header), parseContentDigest(header, ['sha-256'])]
    expect(every.kind === 'given' && [...every.digests.keys()]).toEqual(['sha-256', 'sha-512'])
    expect(one.kind === 'given' && [...one.digests.keys()]).toEqual(['sha-256'])
    expect(parseContentDigest(`sha-512=:${sha512}:`, ['sha-256'])).toEqual({
      kind: 'malformed',
      reason: 'must contain a sha-256 digest',
    })
  })
})
