import { randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { createMac } from './hmac.ts'
import type { KeyRing } from './key-ring.ts'
import { type SignableRequest, UnsignableValueError, createSigner } from './sign.ts'
import { signatureBase } from './signature-base.ts'

const nowMs = 1_790_000_000_500
const ring: KeyRing = {
  current: { id: 'k2', secret: randomBytes(32) },
  previous: { id: 'k1', secret: randomBytes(32) },
}
const request: SignableRequest = {
  method: 'GET',
  target: '/api/v1/findings?limit=10',
  context: 'tenant="x"',
  assertion: 'v1.k.t.1.m',
  requestId: 'req-00000001',
}

const optional = [
  ['content-type', 'contentType'],
  ['content-length', 'contentLength'],
  ['content-digest', 'contentDigest'],
  ['idempotency-key', 'idempotencyKey'],
  ['if-match', 'ifMatch'],
] as const

const value = fc.stringMatching(/^[\x21-\x7e](?:[\t\x20-\x7e]{0,20}[\x21-\x7e])?$/)
const maybe = fc.option(value, { nil: undefined })
const requests: fc.Arbitrary<SignableRequest> = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE'),
  target: value.map((text) => `/${text}`),
  context: value,
  assertion: value,
  requestId: value,
  contentType: maybe,
  contentLength: maybe,
  contentDigest: maybe,
  idempotencyKey: maybe,
  ifMatch: fc.option(fc.oneof(value, fc.constant('')), { nil: undefined }),
})

describe('a request is not signed', () => {
  test.each<readonly [string, keyof SignableRequest]>([
    ['@method', 'method'],
    ['@request-target', 'target'],
    ['postern-context', 'context'],
    ['postern-assertion', 'assertion'],
    ['x-request-id', 'requestId'],
    ...optional,
  ])('when a value of %s could pass for two lines, or is not ASCII, or would be trimmed', (component, member) => {
    for (const bad of ['a\n"@method": DELETE', 'a\r', 'a\0', 'caf\u00e9', '\ud800', ' a', 'a\t']) {
      const sign = () => createSigner(ring, 'findings').sign({ ...request, [member]: bad }, nowMs)
      expect(sign).toThrow(UnsignableValueError)
      expect(sign).toThrow(component)
    }
  })

  test.each(['', 'Findings', 'find:ings', 'find"ings', 'x'.repeat(33)])('under the key name %j', (name) => {
    expect(() => createSigner(ring, name)).toThrow(TypeError)
  })
})

describe('the error about an unsignable value', () => {
  test('does not show it', () => {
    const secret = 'hunter2\u00e9'
    const sign = () => createSigner(ring, 'findings').sign({ ...request, idempotencyKey: secret }, nowMs)
    expect(sign).toThrow('idempotency-key holds characters that a signature cannot cover')
    expect(sign).not.toThrow('hunter2')
    expect(sign).toThrow(expect.objectContaining({ name: 'UnsignableValueError' }))
  })
})

describe('a signature', () => {
  test('has the form that the verifier requires', () => {
    const { signatureInput, signature } = createSigner(ring, 'findings').sign(request, nowMs)
    expect(signatureInput).toMatch(
      /^postern=\("@method" "@request-target" "postern-context" "postern-assertion" "x-request-id"\);created=1790000000;nonce="[A-Za-z0-9_-]{16}1";keyid="findings:k2";alg="hmac-sha256"$/,
    )
    expect(signature).toMatch(/^postern=:[A-Za-z0-9+/]{43}=:$/)
  })

  test('is the HMAC of the base that RFC 9421 prescribes, for any request', () => {
    const signer = createSigner(ring, 'findings')
    const mac = createMac(ring.current.secret)
    fc.assert(
      fc.property(requests, (any) => {
        const given = [
          ['postern-context', any.context],
          ['postern-assertion', any.assertion],
          ['x-request-id', any.requestId],
          ...optional.map(([name, member]) => [name, any[member]] as const),
        ] as const
        const fields = new Map<string, string | undefined>(given.filter(([, text]) => text !== undefined))
        const message = {
          method: any.method,
          target: any.target,
          fields: (name: string) => [fields.get(name)].filter((text) => text !== undefined),
        }
        const { signatureInput, signature } = signer.sign(any, nowMs)
        const parameters = signatureInput.slice('postern='.length)
        const covered = ['@method', '@request-target', ...fields.keys()]
        expect(parameters.startsWith(`(${covered.map((name) => `"${name}"`).join(' ')});`)).toBe(true)
        const base = signatureBase(message, covered, parameters)
        expect(base).toBeDefined()
        expect(signature).toBe(`postern=:${mac.base64(base ?? '')}:`)
      }),
    )
  })

  test('has a unique nonce, even among signers with the same key', () => {
    const signers = [createSigner(ring, 'findings'), createSigner(ring, 'findings'), createSigner(ring, 'keys')]
    const nonces = signers.flatMap((signer) =>
      Array.from({ length: 2000 }, () => /nonce="([^"]+)"/.exec(signer.sign(request, nowMs).signatureInput)?.[1]),
    )
    expect(nonces).not.toContain(undefined)
    expect(new Set(nonces).size).toBe(6000)
  })

  test('contains the second of its creation', () => {
    const signer = createSigner(ring, 'findings')
    const created = [0, 499, 500, 1500, 700, -1000].map((afterMs) =>
      Number(/created=(\d+)/.exec(signer.sign(request, nowMs + afterMs).signatureInput)?.[1]),
    )
    expect(created).toEqual([1_790_000_000, 1_790_000_000, 1_790_000_001, 1_790_000_002, 1_790_000_001, 1_789_999_999])
    // This includes the first signature of a signer, in any second.
    for (const second of [-1, 0, 1]) {
      const { signatureInput } = createSigner(ring, 'findings').sign(request, second * 1000)
      expect(signatureInput).toContain(`;created=${second};nonce="`)
    }
  })
})
