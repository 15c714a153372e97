import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import type { Caller } from '@postern/signed-context'
import {
  createSigner,
  mintAssertion,
  nilTenantId,
  noAssertion,
  parseKeyRing,
  serializeContext,
} from '@postern/signed-context'
import { Agent, type Dispatcher } from 'undici'

export interface SignedCallerOptions {
  /** Origin of the service, without a path. */
  readonly baseUrl: string
  /** What the service calls the ring: `findings`, `operator`, `internal` … */
  readonly keyName: string
  /** The ring itself, as configuration text. */
  readonly ring: string
  /** The ring that PostgreSQL's assertions are minted with, as configuration text. */
  readonly assertionKeys: string
}

/** On whose behalf a call is made. Default: an API key without scopes. */
export type Principal = Pick<Caller, 'tenantId'> & Partial<Caller>

export interface CallOptions {
  /** Sent as JSON, unless it is a buffer, a string or a stream. */
  readonly body?: unknown
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
}

export interface CallAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body, where it is JSON. */
  readonly json: unknown
}

/** Speaks to a service directly, signed as the gateway (or the operator's command) signs. */
export interface SignedCaller {
  call(principal: Principal, method: Dispatcher.HttpMethod, target: string, options?: CallOptions): Promise<CallAnswer>
}

/** Signs what somebody else sends. */
export interface RequestSigner {
  /** The headers of a request without a body. They are believed once, and for half a minute; the assertion is from `assertedAt`, milliseconds since the epoch. */
  sign(
    principal: Principal,
    method: Dispatcher.HttpMethod,
    target: string,
    assertedAt?: number,
  ): Readonly<Record<string, string>>
}

/** The operator of the platform: no tenant, all scopes come with the kind. */
// Without a credential of their own, operators are named `operator`.
export const operator: Principal = { tenantId: nilTenantId, kind: 'operator', id: 'operator', label: 'operator' }

const answerTimeoutMs = 60_000
/**
 * As the gateway closes what is idle. A service that ends waits for a connection on which it had just answered before the body was
 * all there: for the 75 s that it keeps one, unless its client closes it.
 */
const idleConnections = { keepAliveTimeout: 1500, keepAliveMaxTimeout: 1500 } as const

/** A caller for one service. */
export function createSignedCaller(options: SignedCallerOptions): SignedCaller & RequestSigner {
  const signer = createSigner(parseKeyRing(options.ring), options.keyName)
  const assertionRing = parseKeyRing(options.assertionKeys)
  const connections = new Agent({ headersTimeout: answerTimeoutMs, bodyTimeout: answerTimeoutMs, ...idleConnections })
  const sign = (
    principal: Principal,
    method: Dispatcher.HttpMethod,
    target: string,
    sent: Readonly<Record<string, string>> = {},
    assertedAt = Date.now(),
  ): Record<string, string> => {
    const caller: Caller = {
      kind: 'api_key',
      id: '00000000-0000-4000-8000-000000000001',
      label: 'A test key',
      scopes: [],
      roles: [],
      ...principal,
    }
    const now = Date.now()
    const context = serializeContext(caller)
    const isUntenanted = caller.kind === 'service' && caller.tenantId === nilTenantId
    const assertion = isUntenanted ? noAssertion : mintAssertion(assertionRing, caller.tenantId, assertedAt)
    const requestId = sent[requestIdHeader] ?? randomUUID()
    const { signatureInput, signature } = signer.sign(
      {
        method,
        target,
        context,
        assertion,
        requestId,
        contentType: sent['content-type'],
        contentLength: sent['content-length'],
        contentDigest: sent['content-digest'],
        idempotencyKey: sent['idempotency-key'],
        ifMatch: sent['if-match'],
      },
      now,
    )
    return {
      ...sent,
      [contextHeader]: context,
      [assertionHeader]: assertion,
      [requestIdHeader]: requestId,
      [signatureInputHeader]: signatureInput,
      [signatureHeader]: signature,
    }
  }
  return {
    sign: (principal, method, target, assertedAt) => sign(principal, method, target, {}, assertedAt),
    call: async (principal, method, target, { body, headers = {} } = {}) => {
      const payload = encodeBody(method, body)
      const answer = await connections.request({
        origin: options.baseUrl,
        method,
        path: target,
        headers: sign(principal, method, target, { ...payload.headers, ...headers }),
        body: payload.content,
      })
      const text = await answer.body.text()
      return { status: answer.statusCode, headers: flatten(answer.headers), text, json: parseJson(text) }
    },
  }
}

interface Payload {
  readonly content: Buffer | Readable | null
  readonly headers: Record<string, string>
}

function encodeBody(method: Dispatcher.HttpMethod, body: unknown): Payload {
  if (body === undefined) {
    // undici sends it with these methods (RFC 9110 §8.6), and a signature must cover what is sent.
    const expectsBody = method === 'POST' || method === 'PUT' || method === 'PATCH'
    return { content: null, headers: expectsBody ? { 'content-length': '0' } : {} }
  }
  if (isStream(body)) return { content: body, headers: {} }
  const isRaw = Buffer.isBuffer(body) || typeof body === 'string'
  const content = Buffer.from(isRaw ? body : JSON.stringify(body))
  const headers = { 'content-length': String(content.length) }
  return { content, headers: isRaw ? headers : { 'content-type': 'application/json', ...headers } }
}

function isStream(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'pipe' in body && typeof body.pipe === 'function'
}

function flatten(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
