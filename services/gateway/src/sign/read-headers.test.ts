import fc from 'fast-check'
import { strippedHeaderPrefixes, strippedHeaders } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { readHeaders } from './read-headers.ts'
import { useOfHeader } from './header-use.ts'

/** Any spelling of a name: each letter in either case, each hyphen perhaps an underscore. */
function spellings(name: string): fc.Arbitrary<string> {
  return fc
    .tuple(
      ...Array.from(name, (letter) => fc.constantFrom(letter, letter.toUpperCase(), letter === '-' ? '_' : letter)),
    )
    .map((letters) => letters.join(''))
}

describe('a header that the platform owns', () => {
  test('never passes, in whatever spelling', () => {
    const platform = fc
      .constantFrom(...strippedHeaders, ...strippedHeaderPrefixes.map((prefix) => `${prefix}anything`))
      .chain(spellings)
    fc.assert(
      fc.property(platform, (name) => {
        expect(readHeaders([name, 'forged']).passed).toEqual([])
      }),
    )
  })

  test.each(['content_length', 'Content_Type', 'if_match', 'x_forwarded_for', 'transfer_encoding', 'x_request_id'])(
    'is not passed as %s, which others may read as the same',
    (name) => {
      expect(useOfHeader(name).kind).toBe('strip')
    },
  )

  test.each([
    'X-Tenant-Id',
    'x_tenant_id',
    'X-User',
    'Forwarded',
    'X-Original-URL',
    'X-Method-Override',
    'X_HTTP_Method_Override',
    'X-Real-IP',
    'Cookie',
    'Trailer',
    'Upgrade',
    'HTTP2-Settings',
    'Signature-Input',
  ])('%s is stripped', (name) => {
    expect(useOfHeader(name).kind).toBe('strip')
  })
})

describe('a header that must occur once', () => {
  test.each([
    'Authorization',
    'Host',
    'Content-Type',
    'Content-Length',
    'Content-Digest',
    'Idempotency-Key',
    'If-Match',
    'X-Request-Id',
    'Transfer-Encoding',
    'X-HTTP-Method-Override',
  ])('a repeated %s is reported, also in another case or with the same value', (name) => {
    const lower = name.toLowerCase()
    expect(readHeaders([name, 'a', lower, 'b']).duplicate).toBe(lower)
    expect(readHeaders([name, 'a', name, 'a']).duplicate).toBe(lower)
    expect(readHeaders([name, '', name, 'a']).duplicate).toBe(lower)
    expect(readHeaders([name, 'a']).duplicate).toBeUndefined()
  })
})

describe('headers that Connection names', () => {
  test('go no further, in whatever case and number they are named', () => {
    const { passed, signed } = readHeaders([
      'Connection',
      'close, Prefer',
      'connection',
      'if-match',
      'Prefer',
      '1',
      'range',
      '2',
      'If-Match',
      '"a"',
    ])
    expect(passed).toEqual(['range', '2'])
    expect(signed).toEqual({})
  })

  test('cannot take away what frames the body or authenticates', () => {
    const { signed, read } = readHeaders([
      'connection',
      'content-length, authorization, host',
      'content-length',
      '3',
      'authorization',
      'ApiKey x',
      'host',
      'a',
    ])
    expect(signed['content-length']).toBe('3')
    expect(read).toMatchObject({ authorization: 'ApiKey x', host: 'a' })
  })

  test('are taken by name, never by a value that reads like it', () => {
    const { passed } = readHeaders(['connection', 'prefer', 'range', 'prefer', 'accept', 'y'])
    expect(passed).toEqual(['range', 'prefer', 'accept', 'y'])
  })
})

test('only headers that services read pass, in order, with lower-case names and unchanged values', () => {
  const { passed } = readHeaders(['Accept', 'a', '__proto__', 'b', 'X-New', 'd', 'If-None-Match', '"1"', 'accept', 'c'])
  expect(passed).toEqual(['accept', 'a', 'if-none-match', '"1"', 'accept', 'c'])
})

test('X-Forwarded-For is read as one list in the order of its lines', () => {
  expect(readHeaders(['x-forwarded-for', 'a', 'X-Forwarded-For', 'b']).read['x-forwarded-for']).toBe('a,b')
})
