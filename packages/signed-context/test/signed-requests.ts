import { randomBytes } from 'node:crypto'

import { mintAssertion } from '../src/assertion.ts'
import { type Caller, serializeContext } from '../src/context.ts'
import { createMac } from '../src/hmac.ts'
import type { KeyRing } from '../src/key-ring.ts'
import { type SignableRequest, createSigner } from '../src/sign.ts'
import { type ReceivedRequest, createVerifier } from '../src/verify.ts'

export const nowMs = 1_790_000_000_500
export const tenantId = '0190c0de-1111-7000-8000-00000000000a'
export const otherTenantId = '0190c0de-1111-7000-8000-00000000000b'
export const ring: KeyRing = {
  current: { id: 'k2', secret: randomBytes(32) },
  previous: { id: 'k1', secret: randomBytes(32) },
}
export const assertions: KeyRing = { current: { id: 'a1', secret: randomBytes(32) } }
export const caller: Caller = {
  tenantId,
  kind: 'api_key',
  id: '0190c0de-2222-7000-8000-000000000001',
  label: 'Power BI',
  scopes: ['read:findings'],
  roles: [],
}
export const assertion = mintAssertion(assertions, tenantId, nowMs)

export const read: SignableRequest = {
  method: 'GET',
  target: '/api/v1/findings?limit=10',
  context: serializeContext(caller),
  assertion,
  requestId: 'req-00000001',
}
export const write: SignableRequest = {
  ...read,
  method: 'PATCH',
  target: '/api/v1/findings/0190c0de-3333-7000-8000-000000000001',
  contentType: 'application/merge-patch+json',
  contentLength: '17',
  contentDigest: 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:',
  idempotencyKey: 'a-key',
  ifMatch: '"7"',
}

/** Returns a signed request as a service receives it. */
export function received(
  request: SignableRequest,
  signer = createSigner(ring, 'findings'),
  atMs = nowMs,
): ReceivedRequest {
  const { signatureInput, signature } = signer.sign(request, atMs)
  const optional = [
    ['Content-Type', request.contentType],
    ['Content-Length', request.contentLength],
    ['Content-Digest', request.contentDigest],
    ['Idempotency-Key', request.idempotencyKey],
    ['If-Match', request.ifMatch],
  ] as const
  return {
    method: request.method,
    target: request.target,
    headers: [
      'Host',
      '127.0.0.1:8182',
      'postern-context',
      request.context,
      'postern-assertion',
      request.assertion,
      'x-request-id',
      request.requestId,
      ...optional.flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
      'signature-input',
      signatureInput,
      'signature',
      signature,
    ],
  }
}

export function verdict(request: ReceivedRequest, atMs = nowMs, trusted = ring, keyName = 'findings'): string {
  const result = createVerifier(trusted, keyName).verify(request, atMs)
  return result.ok ? 'accepted' : result.reason
}

export function withHeader(request: ReceivedRequest, name: string, change: (value: string) => string): ReceivedRequest {
  const at = request.headers.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name)
  return { ...request, headers: request.headers.map((text, index) => (index === at + 1 ? change(text) : text)) }
}

export function withoutHeader(request: ReceivedRequest, name: string): ReceivedRequest {
  const at = request.headers.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === name)
  return { ...request, headers: request.headers.filter((_text, index) => index !== at && index !== at + 1) }
}

export function withAdded(request: ReceivedRequest, ...headers: readonly string[]): ReceivedRequest {
  return { ...request, headers: [...request.headers, ...headers] }
}

export function flip(text: string, at: number, bit: number): string {
  return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << bit)) + text.slice(at + 1)
}

/** Returns a request with changed parameters and a valid signature, as a holder of the secret could send it. */
export function signedAs(request: SignableRequest, change: (parameters: string) => string): ReceivedRequest {
  const good = received(request)
  const input = good.headers[good.headers.indexOf('signature-input') + 1] ?? ''
  const parameters = change(input.slice('postern='.length))
  const values: Readonly<Record<string, string | undefined>> = {
    '@method': request.method,
    '@request-target': request.target,
    'postern-context': request.context,
    'postern-assertion': request.assertion,
    'x-request-id': request.requestId,
    'content-type': request.contentType,
    'content-length': request.contentLength,
    'content-digest': request.contentDigest,
    'idempotency-key': request.idempotencyKey,
    'if-match': request.ifMatch,
  }
  const covered = parameters
    .slice(1, parameters.indexOf(')'))
    .split(' ')
    .map((name) => name.replaceAll('"', ''))
  const base = covered.map((name) => `"${name}": ${values[name]}\n`).join('') + `"@signature-params": ${parameters}`
  return withHeader(
    withHeader(good, 'signature-input', () => `postern=${parameters}`),
    'signature',
    () => `postern=:${createMac(ring.current.secret).base64(base)}:`,
  )
}
