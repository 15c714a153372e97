import { constants, createPublicKey, verify } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { createMac } from './hmac.ts'
import {
  type ComponentIdentifier,
  type SignedMessage,
  componentValue,
  isSignable,
  signatureBase,
} from './signature-base.ts'

function message(
  parts: Omit<SignedMessage, 'fields'>,
  fields: readonly (readonly [string, string])[] = [],
): SignedMessage {
  return {
    ...parts,
    fields: (name) => fields.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value),
  }
}

function queryParam(name: string): ComponentIdentifier {
  return { component: '@query-param', name }
}

// RFC 9421 appendix B.2: the messages that all its examples sign.
const testRequest = message(
  { method: 'POST', target: '/foo?param=Value&Pet=dog', scheme: 'https', authority: 'example.com' },
  [
    ['Host', 'example.com'],
    ['Date', 'Tue, 20 Apr 2021 02:07:55 GMT'],
    ['Content-Type', 'application/json'],
    [
      'Content-Digest',
      'sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:',
    ],
    ['Content-Length', '18'],
  ],
)
const testResponse = message({ status: 200 }, [
  ['Date', 'Tue, 20 Apr 2021 02:07:56 GMT'],
  ['Content-Type', 'application/json'],
  [
    'Content-Digest',
    'sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:',
  ],
  ['Content-Length', '23'],
])

// RFC 9421 appendix B.1: its public keys and its shared secret.
const rsaPss = createPublicKey(`-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----`)
const eccP256 = createPublicKey(`-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqIVYZVLCrPZHGHjP17CTW0/+D9Lf
w0EkjqF7xB4FivAxzic30tMM4GF+hR6Dxh71Z50VGGdldkkDXZCnTNnoXQ==
-----END PUBLIC KEY-----`)
const ed25519 = createPublicKey({
  format: 'jwk',
  key: { kty: 'OKP', crv: 'Ed25519', x: 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs' },
})
const sharedSecret = Buffer.from(
  'uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==',
  'base64',
)

interface Example {
  readonly signed: SignedMessage
  readonly covered: readonly ComponentIdentifier[]
  readonly parameters: string
  readonly base: readonly string[]
  readonly isSignedBy: (base: string) => boolean
}

function rsaPssSha512(signature: string) {
  return (base: string) =>
    verify(
      'sha512',
      Buffer.from(base),
      { key: rsaPss, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 64 },
      Buffer.from(signature, 'base64'),
    )
}

const examples: Readonly<Record<string, Example>> = {
  'B.2.1, minimal': {
    signed: testRequest,
    covered: [],
    parameters: '();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"',
    base: [],
    isSignedBy: rsaPssSha512(
      'd2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==',
    ),
  },
  'B.2.2, selected components': {
    signed: testRequest,
    covered: ['@authority', 'content-digest', queryParam('Pet')],
    parameters:
      '("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"',
    base: [
      '"@authority": example.com',
      '"content-digest": sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:',
      '"@query-param";name="Pet": dog',
    ],
    isSignedBy: rsaPssSha512(
      'LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==',
    ),
  },
  'B.2.3, full coverage': {
    signed: testRequest,
    covered: ['date', '@method', '@path', '@query', '@authority', 'content-type', 'content-digest', 'content-length'],
    parameters:
      '("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"',
    base: [
      '"date": Tue, 20 Apr 2021 02:07:55 GMT',
      '"@method": POST',
      '"@path": /foo',
      '"@query": ?param=Value&Pet=dog',
      '"@authority": example.com',
      '"content-type": application/json',
      '"content-digest": sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:',
      '"content-length": 18',
    ],
    isSignedBy: rsaPssSha512(
      'bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==',
    ),
  },
  'B.2.4, a response': {
    signed: testResponse,
    covered: ['@status', 'content-type', 'content-digest', 'content-length'],
    parameters:
      '("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256"',
    base: [
      '"@status": 200',
      '"content-type": application/json',
      '"content-digest": sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:',
      '"content-length": 23',
    ],
    isSignedBy: (base) =>
      verify(
        'sha256',
        Buffer.from(base),
        { key: eccP256, dsaEncoding: 'ieee-p1363' },
        Buffer.from(
          'wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==',
          'base64',
        ),
      ),
  },
  'B.2.5, hmac-sha256': {
    signed: testRequest,
    covered: ['date', '@authority', 'content-type'],
    parameters: '("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
    base: ['"date": Tue, 20 Apr 2021 02:07:55 GMT', '"@authority": example.com', '"content-type": application/json'],
    isSignedBy: (base) => createMac(sharedSecret).base64(base) === 'pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=',
  },
  'B.2.6, ed25519': {
    signed: testRequest,
    covered: ['date', '@method', '@path', '@authority', 'content-type', 'content-length'],
    parameters:
      '("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
    base: [
      '"date": Tue, 20 Apr 2021 02:07:55 GMT',
      '"@method": POST',
      '"@path": /foo',
      '"@authority": example.com',
      '"content-type": application/json',
      '"content-length": 18',
    ],
    isSignedBy: (base) =>
      verify(
        null,
        Buffer.from(base),
        ed25519,
        Buffer.from(
          'wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==',
          'base64',
        ),
      ),
  },
}

describe('the signature base of RFC 9421', () => {
  test.each(Object.entries(examples))('%s, is built as published', (_name, { signed, covered, parameters, base }) => {
    expect(signatureBase(signed, covered, parameters)).toBe([...base, `"@signature-params": ${parameters}`].join('\n'))
  })

  test.each(Object.entries(examples))('%s, has the published signature', (_name, example) => {
    const base = signatureBase(example.signed, example.covered, example.parameters) ?? ''
    expect(example.isSignedBy(base)).toBe(true)
    expect(example.isSignedBy(base.replace('1618884473', '1618884474'))).toBe(false)
  })
})

describe('a component is not covered', () => {
  const parameters = '();created=1'

  test.each<[string, SignedMessage, readonly ComponentIdentifier[]]>([
    ['a field that the message does not have', testRequest, ['if-match']],
    ['a derived component that is unknown', testRequest, ['@origin']],
    ['a field whose name starts with @', message({}, [['@origin', 'a']]), ['@origin']],
    ['the authority of a request without one', message({ scheme: 'https' }), ['@authority']],
    ['the target URI of a request without an authority', message({ target: '/', scheme: 'https' }), ['@target-uri']],
    ['the target URI of *', message({ target: '*', scheme: 'https', authority: 'a' }), ['@target-uri']],
    ['the path of a response', testResponse, ['@path']],
    ['the query of a response', testResponse, ['@query']],
    ['a query parameter of a response', testResponse, [queryParam('a')]],
    ['the parameters themselves', testRequest, ['@signature-params']],
    ['the method of a response', testResponse, ['@method']],
    ['the status of a request', testRequest, ['@status']],
    ['the target URI of a request without a scheme', message({ target: '/', authority: 'a' }), ['@target-uri']],
    ['the path of a target in authority form', message({ target: 'www.example.com:80' }), ['@path']],
    ['a query parameter that is absent', testRequest, [queryParam('Cat')]],
    ['a query parameter that occurs twice', message({ target: '/?a=1&a=2' }), [queryParam('a')]],
    ['a field with a value that is not ASCII', message({}, [['a', 'caf\u00e9']]), ['a']],
    ['a field whose value has a line feed', message({}, [['a', 'b\n"@method": GET']]), ['a']],
    ['a field whose value has a NUL', message({}, [['a', 'b\0']]), ['a']],
  ])('and no base is built: %s', (_name, signed, covered) => {
    expect(signatureBase(signed, covered, parameters)).toBeUndefined()
  })

  test('twice', () => {
    expect(signatureBase(testRequest, ['date', 'date'], parameters)).toBeUndefined()
    expect(signatureBase(testRequest, [queryParam('Pet'), queryParam('Pet')], parameters)).toBeUndefined()
    expect(signatureBase(testRequest, ['date', queryParam('Pet'), queryParam('param')], parameters)).toBeDefined()
  })
})

describe('a field', () => {
  // RFC 9421 §2.1
  const fields = message({}, [
    ['Host', 'www.example.com'],
    ['Date', 'Tue, 20 Apr 2021 02:07:56 GMT'],
    ['X-OWS-Header', '   Leading and trailing whitespace.   '],
    ['X-Obs-Fold-Header', 'Obsolete\n    line folding.'],
    ['Cache-Control', 'max-age=60'],
    ['Cache-Control', '   must-revalidate'],
    ['Example-Dict', ' a=1,    b=2;x=1;y=2,   c=(a   b   c)'],
    ['X-Empty-Header', ''],
    ['X-Tabs', '\t a\tb \t'],
    ['X-Blanks', ' \t '],
  ])

  test.each([
    ['host', 'www.example.com'],
    ['date', 'Tue, 20 Apr 2021 02:07:56 GMT'],
    ['x-ows-header', 'Leading and trailing whitespace.'],
    ['x-obs-fold-header', 'Obsolete line folding.'],
    ['cache-control', 'max-age=60, must-revalidate'],
    ['example-dict', 'a=1,    b=2;x=1;y=2,   c=(a   b   c)'],
    ['x-empty-header', ''],
    ['x-tabs', 'a\tb'],
    ['x-blanks', ''],
  ])('%s has the value of RFC 9421 §2.1', (name, value) => {
    expect(componentValue(fields, name)).toBe(value)
    expect(signatureBase(fields, [name], '()')).toBe(`"${name}": ${value}\n"@signature-params": ()`)
  })
})

describe('a derived component', () => {
  const request = {
    method: 'POST',
    target: '/path?param=value',
    scheme: 'https',
    authority: 'www.example.com',
  } as const

  // RFC 9421 §2.2.1 to §2.2.7, §2.2.9
  test.each<[ComponentIdentifier, Omit<SignedMessage, 'fields'>, string]>([
    ['@method', request, 'POST'],
    ['@target-uri', request, 'https://www.example.com/path?param=value'],
    ['@authority', request, 'www.example.com'],
    ['@authority', { authority: 'WWW.Example.COM:443', scheme: 'https' }, 'www.example.com'],
    ['@authority', { authority: 'www.example.com:80', scheme: 'http' }, 'www.example.com'],
    ['@authority', { authority: 'www.example.com:80', scheme: 'https' }, 'www.example.com:80'],
    ['@scheme', { ...request, scheme: 'http' }, 'http'],
    ['@request-target', request, '/path?param=value'],
    [
      '@request-target',
      { target: 'https://www.example.com/path?param=value' },
      'https://www.example.com/path?param=value',
    ],
    ['@request-target', { target: 'www.example.com:80' }, 'www.example.com:80'],
    ['@request-target', { target: '*' }, '*'],
    ['@path', request, '/path'],
    ['@query', { target: '/path?param=value&foo=bar&baz=bat%2Dman' }, '?param=value&foo=bar&baz=bat%2Dman'],
    ['@query', { target: '/path?queryString' }, '?queryString'],
    ['@query', { target: '/path' }, '?'],
    ['@status', { status: 200 }, '200'],
  ])('%s of %o is as in RFC 9421 §2.2', (identifier, parts, value) => {
    expect(componentValue(message(parts), identifier)).toBe(value)
  })

  // RFC 9421 §2.2.8
  test.each([
    ['/path?param=value&foo=bar&baz=batman&qux=', 'baz', 'batman'],
    ['/path?param=value&foo=bar&baz=batman&qux=', 'qux', ''],
    ['/path?param=value&foo=bar&baz=batman&qux=', 'param', 'value'],
    [
      '/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something',
      'var',
      'this%20is%20a%20big%0Amultiline%20value',
    ],
    ['/parameters?bar=with+plus+whitespace', 'bar', 'with%20plus%20whitespace'],
    ['/parameters?fa%C3%A7ade%22%3A%20=something', 'fa%C3%A7ade%22%3A%20', 'something'],
    ["/parameters?a=!'()*~", 'a', '%21%27%28%29*%7E'],
  ])('of the query of %s named %s is as in RFC 9421 §2.2.8', (target, name, value) => {
    expect(componentValue(message({ target }), queryParam(name))).toBe(value)
  })
})

function baseOf([a, b]: readonly [string, string]): string | undefined {
  const fields = [
    ['a', a],
    ['b', b],
  ] as const
  return signatureBase(message({}, fields), ['a', 'b'], '("a" "b")')
}

describe('a value', () => {
  test('is signable if it is one line without surrounding white space', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const isPlain = value === value.trim() && /^[\t\x20-\x7e]*$/.test(value)
        expect(isSignable(value)).toBe(isPlain)
      }),
    )
  })

  test('changes the base: two different lists of values never have the same base', () => {
    const values = fc.tuple(fc.string(), fc.string())
    fc.assert(
      fc.property(values, values, (one, two) => {
        fc.pre(baseOf(one) !== undefined && one.some((value, at) => value.trim() !== two[at]?.trim()))
        expect(baseOf(one)).not.toBe(baseOf(two))
      }),
    )
  })
})
