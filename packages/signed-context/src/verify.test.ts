import { randomBytes } from 'node:crypto'

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import {
  assertion,
  assertions,
  caller,
  flip,
  nowMs,
  otherTenantId,
  read,
  received,
  ring,
  signedAs,
  tenantId,
  verdict,
  withAdded,
  withHeader,
  withoutHeader,
  write,
} from '../test/signed-requests.ts'
import { mintAssertion } from './assertion.ts'
import { type Caller, noAssertion, serializeContext } from './context.ts'
import type { KeyRing } from './key-ring.ts'
import { type SignableRequest, createSigner } from './sign.ts'
import { nilTenantId } from './tenant-id.ts'
import { type ReceivedRequest, createVerifier } from './verify.ts'

describe('a request is rejected', () => {
  test('control: the unchanged requests are accepted', () => {
    expect(verdict(received(read))).toBe('accepted')
    expect(verdict(received(write))).toBe('accepted')
    expect(verdict(signedAs(write, (parameters) => parameters))).toBe('accepted')
  })

  test('when it is not signed', () => {
    expect(verdict({ method: 'GET', target: read.target, headers: ['Host', 'x'] })).toBe('missing_header')
    expect(verdict({ method: 'GET', target: read.target, headers: [] })).toBe('missing_header')
  })

  test.each(['signature', 'signature-input', 'postern-context', 'postern-assertion', 'x-request-id'])(
    'without %s',
    (name) => {
      expect(verdict(withoutHeader(received(read), name))).toBe('missing_header')
    },
  )

  test.each(['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match'])(
    'when %s was taken away on the way',
    (name) => {
      expect(verdict(withoutHeader(received(write), name))).toBe('missing_header')
    },
  )

  test.each(['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match'])(
    'when %s was added on the way',
    (name) => {
      expect(verdict(withAdded(received(read), name, 'x'))).toBe('uncovered_header')
    },
  )

  test.each([
    ['the method', (request: ReceivedRequest) => ({ ...request, method: 'DELETE' })],
    ['the case of the method', (request: ReceivedRequest) => ({ ...request, method: 'patch' })],
    ['the path', (request: ReceivedRequest) => ({ ...request, target: `${request.target}0` })],
    ['a query', (request: ReceivedRequest) => ({ ...request, target: `${request.target}?expand=all` })],
    [
      'the tenant',
      (request: ReceivedRequest) =>
        withHeader(request, 'postern-context', (text) => text.replace(tenantId, otherTenantId)),
    ],
    [
      'the scopes',
      (request: ReceivedRequest) => withHeader(request, 'postern-context', (text) => text.replace('read:', 'write:')),
    ],
    [
      'the assertion',
      (request: ReceivedRequest) =>
        withHeader(request, 'postern-assertion', () => mintAssertion(assertions, otherTenantId, nowMs)),
    ],
    [
      'the digest',
      (request: ReceivedRequest) => withHeader(request, 'content-digest', (text) => text.replace('X48', 'X49')),
    ],
    ['the length', (request: ReceivedRequest) => withHeader(request, 'content-length', () => '18')],
  ])('when it is sent again with another value of: %s', (_name, change) => {
    expect(verdict(change(received(write)))).toBe('wrong_signature')
  })

  test('when any bit of a covered part or the signature is flipped', () => {
    const verifier = createVerifier(ring, 'findings')
    const good = received(write)
    let tried = 0
    const attempt = (text: string, place: string, make: (forged: string) => ReceivedRequest) => {
      for (let at = 0; at < text.length; at += 1) {
        for (let bit = 0; bit < 8; bit += 1) {
          tried += 1
          if (verifier.verify(make(flip(text, at, bit)), nowMs).ok) expect.fail(`${place}: bit ${bit} of byte ${at}`)
        }
      }
    }
    attempt(good.method, 'method', (method) => ({ ...good, method }))
    attempt(good.target, 'target', (target) => ({ ...good, target }))
    good.headers.forEach((text, index) => {
      const name = good.headers[index - 1]?.toLowerCase()
      if (index % 2 === 0 || name === undefined || name === 'host') return
      attempt(text, name, (value) => ({
        ...good,
        headers: good.headers.map((old, at) => (at === index ? value : old)),
      }))
    })
    expect(tried).toBeGreaterThan(5000)
    expect(verifier.verify(good, nowMs).ok).toBe(true)
  })

  test('when any character of a covered part is replaced, removed or doubled', () => {
    const verifier = createVerifier(ring, 'findings')
    const signer = createSigner(ring, 'findings')
    const names = [
      'postern-context',
      'postern-assertion',
      'x-request-id',
      'content-type',
      'content-length',
      'content-digest',
      'idempotency-key',
      'if-match',
      'signature-input',
      'signature',
    ]
    fc.assert(
      fc.property(
        fc.constantFrom('method', 'target', ...names),
        fc.nat(),
        fc.integer({ min: 0, max: 255 }),
        fc.constantFrom('replace', 'leave out', 'double'),
        (part, place, code, how) => {
          const good = received(write, signer)
          const alter = (text: string) => {
            const at = place % text.length
            const instead = { replace: String.fromCharCode(code), 'leave out': '', double: text.charAt(at).repeat(2) }[
              how
            ]
            return text.slice(0, at) + instead + text.slice(at + 1)
          }
          const forged =
            part === 'method' || part === 'target'
              ? { ...good, [part]: alter(good[part]) }
              : withHeader(good, part, alter)
          fc.pre(JSON.stringify(forged) !== JSON.stringify(good))
          expect(verifier.verify(forged, nowMs).ok).toBe(false)
        },
      ),
      { numRuns: 3000 },
    )
  })

  test('the second time', () => {
    const verifier = createVerifier(ring, 'findings')
    const request = received(read)
    expect(verifier.verify(request, nowMs).ok).toBe(true)
    for (const atMs of [nowMs, nowMs + 1000, nowMs + 29_000])
      expect(verifier.verify(request, atMs)).toEqual({ ok: false, reason: 'replayed' })
  })

  test('the second time, even after another rejection and with the clock set back', () => {
    const verifier = createVerifier(ring, 'findings')
    const request = received(read)
    expect(verifier.verify(request, nowMs + 20_000).ok).toBe(true)
    expect(verifier.verify({ ...request, method: 'POST' }, nowMs).ok).toBe(false)
    for (let n = 0; n < 10; n += 1) verifier.verify(received(read), nowMs)
    expect(verifier.verify(request, nowMs)).toEqual({ ok: false, reason: 'replayed' })
  })

  test('when it was signed more than 30 s ago', () => {
    const request = received(read, undefined, 1_790_000_000_000)
    expect(verdict(request, 1_790_000_030_000)).toBe('accepted')
    expect(verdict(request, 1_790_000_030_001)).toBe('too_old')
    expect(verdict(request, 1_790_003_600_000)).toBe('too_old')
  })

  test('when it was signed more than 5 s in the future', () => {
    const request = received(read, undefined, 1_790_000_005_000)
    expect(verdict(request, 1_790_000_000_000)).toBe('accepted')
    expect(verdict(request, 1_789_999_999_999)).toBe('from_the_future')
    expect(verdict(request, Number.NaN)).toBe('too_old')
  })

  test('when it was signed for another service', () => {
    expect(verdict(received(read, createSigner(ring, 'evidence')))).toBe('unknown_key')
    expect(verdict(received(read), nowMs, ring, 'evidence')).toBe('unknown_key')
  })

  test('when it was signed with another secret under a known key id', () => {
    const forged: KeyRing = { current: { id: 'k2', secret: randomBytes(32) } }
    expect(verdict(received(read, createSigner(forged, 'findings')))).toBe('wrong_signature')
  })

  test('when it was signed with a secret that differs in one bit', () => {
    const request = received(read)
    for (let at = 0; at < 256; at += 1) {
      const secret = Buffer.from(ring.current.secret)
      secret[at >> 3] = (secret[at >> 3] ?? 0) ^ (1 << (at & 7))
      expect(verdict(request, nowMs, { current: { id: 'k2', secret } })).toBe('wrong_signature')
    }
  })

  test('when the previous key has been removed from the ring', () => {
    const before = createSigner({ current: { id: 'k1', secret: ring.previous?.secret ?? Buffer.alloc(0) } }, 'findings')
    expect(verdict(received(read, before))).toBe('accepted')
    expect(verdict(received(read, before), nowMs, { current: ring.current })).toBe('unknown_key')
  })

  test('when it was signed with the secret of one key and the id of the other', () => {
    const mixed: KeyRing = { current: { id: 'k1', secret: ring.current.secret } }
    expect(verdict(received(read, createSigner(mixed, 'findings')))).toBe('wrong_signature')
  })
})

describe('a request is rejected even if its signer has the secret', () => {
  test.each<[string, (parameters: string) => string]>([
    ['the method is not covered', (text) => text.replace('"@method" ', '')],
    ['the target is not covered', (text) => text.replace('"@request-target" ', '')],
    ['the context is not covered', (text) => text.replace('"postern-context" ', '')],
    ['the assertion is not covered', (text) => text.replace('"postern-assertion" ', '')],
    ['the request id is not covered', (text) => text.replace(' "x-request-id"', '')],
    ['nothing is covered', (text) => text.replace(/^\([^)]*\)/, '()')],
    [
      'the components are in another order',
      (text) => text.replace('"@method" "@request-target"', '"@request-target" "@method"'),
    ],
    ['a component is covered twice', (text) => text.replace('"@method"', '"@method" "@method"')],
    ['another component is covered', (text) => text.replace('"x-request-id"', '"x-request-id" "host"')],
    ['a component has a parameter', (text) => text.replace('"x-request-id"', '"x-request-id";sf')],
    ['a component is in upper case', (text) => text.replace('"x-request-id"', '"X-Request-Id"')],
    ['there is no time', (text) => text.replace(/;created=\d+/, '')],
    ['the time has a fraction', (text) => text.replace(/;created=\d+/, '$&.5')],
    ['the time is negative', (text) => text.replace(';created=', ';created=-')],
    ['the time has a leading zero', (text) => text.replace(';created=', ';created=0')],
    ['the time is a text', (text) => text.replace(/;created=(\d+)/, ';created="$1"')],
    ['there is no nonce', (text) => text.replace(/;nonce="[^"]*"/, '')],
    ['the nonce is empty', (text) => text.replace(/;nonce="[^"]*"/, ';nonce=""')],
    ['the nonce is short', (text) => text.replace(/;nonce="[^"]*"/, ';nonce="123456789012345"')],
    ['the nonce is long', (text) => text.replace(/;nonce="[^"]*"/, `;nonce="${'n'.repeat(65)}"`)],
    ['there is no key id', (text) => text.replace(/;keyid="[^"]*"/, '')],
    ['the key id has no service', (text) => text.replace('findings:', '')],
    ['there is no algorithm', (text) => text.replace(/;alg="[^"]*"/, '')],
    ['the algorithm differs', (text) => text.replace('hmac-sha256', 'ed25519')],
    ['the algorithm is none', (text) => text.replace('hmac-sha256', 'none')],
    ['the parameters are in another order', (text) => text.replace(/(;created=\d+)(;nonce="[^"]*")/, '$2$1')],
    ['a parameter is given twice', (text) => text.replace(/;created=\d+/, '$&$&')],
    ['a parameter is unknown', (text) => `${text};tag="x"`],
    ['it expires', (text) => text.replace(/;created=(\d+)/, '$&;expires=1990000000')],
    ['there is a space after a semicolon', (text) => text.replace(';nonce', '; nonce')],
    ['there are two spaces in the list', (text) => text.replace('" "', '"  "')],
    ['there is a second signature', (text) => `${text}, other=()`],
  ])('when %s', (_name, change) => {
    expect(verdict(signedAs(read, change))).toBe('malformed_signature_input')
  })

  test.each(['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match'])(
    'when %s is there and not covered',
    (name) => {
      expect(verdict(signedAs(write, (text) => text.replace(` "${name}"`, '')))).toBe('uncovered_header')
    },
  )

  test.each([
    ['another label', (text: string) => text.replace('postern=', 'sig1=')],
    ['a signature before it', (text: string) => `sig1=:AAAA:, ${text}`],
    ['a signature after it', (text: string) => `${text}, sig1=:AAAA:`],
    ['a space after it', (text: string) => `${text} `],
    ['no padding', (text: string) => text.replace(/=:$/, ':')],
    ['another spelling of base64', (text: string) => text.replace(/[A-Za-z0-9+/]=:$/, '-=:')],
    ['a shorter MAC', (text: string) => `${text.slice(0, 31)}==:`],
    ['nothing', () => 'postern=::'],
  ])('when the signature has %s', (_name, change) => {
    expect(verdict(withHeader(received(read), 'signature', change))).toBe('malformed_signature')
  })

  test('when the MAC ends with bits that base64 ignores', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
    const request = received(read)
    const spelledElsewise = withHeader(request, 'signature', (text) => {
      const last = alphabet.indexOf(text.charAt(text.length - 3))
      return `${text.slice(0, -3)}${alphabet.charAt(last ^ 1)}=:`
    })
    expect(verdict(spelledElsewise)).toBe('wrong_signature')
    expect(verdict(request)).toBe('accepted')
  })

  test.each<[string, Partial<SignableRequest>]>([
    ['malformed_context', { context: 'tenant="x"' }],
    ['malformed_context', { context: `${read.context}, roles="admin"` }],
    ['assertion_of_another_tenant', { assertion: mintAssertion(assertions, otherTenantId, nowMs) }],
    ['assertion_of_another_tenant', { assertion: mintAssertion(assertions, nilTenantId, nowMs) }],
    ['assertion_of_another_tenant', { assertion: noAssertion }],
    ['assertion_of_another_tenant', { assertion: 'v1' }],
    [
      'assertion_of_another_tenant',
      { context: serializeContext({ ...caller, tenantId: nilTenantId, kind: 'operator' }), assertion },
    ],
  ])('as %s: %o', (reason, change) => {
    expect(verdict(received({ ...read, ...change }))).toBe(reason)
  })
})

describe('a verifier', () => {
  test.each(['', 'Findings', 'find:ings', 'x'.repeat(33)])('is not created for the key name %j', (name) => {
    expect(() => createVerifier(ring, name)).toThrow(TypeError)
  })

  test('returns the caller and the assertion of a valid request', () => {
    expect(createVerifier(ring, 'findings').verify(received(read), nowMs)).toEqual({
      ok: true,
      context: { ...caller, assertion },
    })
  })

  test('accepts header names in any case and order', () => {
    const good = received(write)
    const pairs = good.headers.flatMap((name, at) =>
      at % 2 === 0 ? [[name.toUpperCase(), good.headers[at + 1] ?? '']] : [],
    )
    expect(verdict({ ...good, headers: pairs.toReversed().flat() })).toBe('accepted')
  })

  test('accepts signed requests with any of the optional headers', () => {
    const verifier = createVerifier(ring, 'findings')
    const signer = createSigner(ring, 'findings')
    const members = ['contentType', 'contentLength', 'contentDigest', 'idempotencyKey', 'ifMatch'] as const
    fc.assert(
      fc.property(fc.subarray([...members]), fc.stringMatching(/^[\x21-\x7e]{1,40}$/), (present, value) => {
        const request = { ...read, ...Object.fromEntries(present.map((member) => [member, value])) }
        expect(verifier.verify(received(request, signer), nowMs).ok).toBe(true)
      }),
    )
  })

  test('accepts a request that acts for no tenant and returns the nil tenant', () => {
    const gateway: Caller = { tenantId: nilTenantId, kind: 'service', id: 'gateway', label: '', scopes: [], roles: [] }
    const request = received({ ...read, context: serializeContext(gateway), assertion: noAssertion })
    expect(createVerifier(ring, 'findings').verify(request, nowMs)).toEqual({
      ok: true,
      context: { ...gateway, assertion: noAssertion },
    })
  })

  test('accepts an operator with an assertion of the nil tenant', () => {
    const operator: Caller = { tenantId: nilTenantId, kind: 'operator', id: 'cli', label: '', scopes: [], roles: [] }
    const signed = {
      ...read,
      context: serializeContext(operator),
      assertion: mintAssertion(assertions, nilTenantId, nowMs),
    }
    expect(verdict(received(signed))).toBe('accepted')
  })

  test('rejects requests that it cannot remember, and does not remember forged requests', () => {
    const verifier = createVerifier(ring, 'findings', { maxNonces: 2 })
    const forger = createSigner({ current: { id: 'k2', secret: randomBytes(32) } }, 'findings')
    for (let n = 0; n < 5; n += 1) expect(verifier.verify(received(read, forger), nowMs).ok).toBe(false)
    expect(verifier.verify(received(read), nowMs).ok).toBe(true)
    expect(verifier.verify(received(read), nowMs).ok).toBe(true)
    expect(verifier.verify(received(read), nowMs)).toEqual({ ok: false, reason: 'replay_cache_full' })
  })

  test('never throws, whatever the headers contain', () => {
    const good = received(write)
    fc.assert(
      fc.property(
        fc.constantFrom('signature', 'signature-input', 'postern-context', 'postern-assertion', 'content-type'),
        fc.string({ unit: 'binary', maxLength: 300 }),
        (name, value) => {
          fc.pre(!good.headers.includes(value))
          expect(verdict(withHeader(good, name, () => value))).not.toBe('accepted')
        },
      ),
    )
  })
})
