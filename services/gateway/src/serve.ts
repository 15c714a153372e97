import {
  type ProblemCode,
  type Route,
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import type { ReadAheadBudget } from '@postern/service-kit'
import {
  type AssertionMinter,
  UnsignableValueError,
  nilTenantId,
  noAssertion,
  serializeContext,
} from '@postern/signed-context'
import type { Clocks } from './authenticate/clocks.ts'
import type { Exchange } from './exchange.ts'
import { forward } from './forward/proxy.ts'
import type { Upstreams } from './forward/upstreams.ts'
import type { EnterPublicRequest } from './limit/open-public-requests.ts'
import type { OpenRequests } from './open-requests.ts'
import { type OwnAnswersParts, createOwnAnswers } from './own-answers.ts'
import { type Refusal, refusal } from './refusal.ts'
import type { Usage } from './usage.ts'

export interface ServeParts extends OwnAnswersParts {
  readonly upstreams: Upstreams
  readonly mint: AssertionMinter
  readonly clocks: Clocks
  readonly usage: Pick<Usage, 'used' | 'signIn'>
  /** For each 10 KiB of a body. */
  readonly clientTimeoutMs: number
  readonly openRequests: OpenRequests
  readonly connectionBudget: ReadAheadBudget
  readonly enterPublicRequest: EnterPublicRequest
  readonly onRefusal: (code: ProblemCode) => void
  readonly onForwarded: (exchange: Exchange, status: number) => void
  /** The exchange with a service failed. */
  readonly onFailure: (exchange: Exchange, error: unknown) => void
}

/** Forwards requests, or answers routes of the gateway itself. Returns a refusal if it cannot. */
export function createResponder(parts: ServeParts): (exchange: Exchange) => Refusal | undefined {
  const { upstreams, mint, clocks, callerHeaders, usage, clientTimeoutMs, openRequests, connectionBudget } = parts
  const { isDraining, enterPublicRequest, onRefusal, onForwarded, onFailure } = parts
  const answerItself = createOwnAnswers(parts)

  function forwardToService(
    exchange: Exchange,
    route: Route & { readonly upstream: keyof Upstreams['targets'] },
  ): Refusal | undefined {
    const { headers, principal, method, target, requestId } = exchange
    const upstream = upstreams.targets[route.upstream]
    const given = headers.signed['content-length']
    const length = given === undefined ? undefined : Number(given)
    const isChunked = headers.read['transfer-encoding'] !== undefined
    // RFC 9112, section 6.3: chunks without content are no body.
    const hasBody = isChunked ? exchange.hasContent !== false : length !== undefined && length > 0
    const fault = hasBody ? bodyFault(exchange, route, length) : undefined
    if (fault !== undefined) return fault
    if (principal === undefined && !enterPublicRequest(exchange)) {
      const detail = 'Too many requests without credentials are open from this address. Wait for their answers.'
      return refusal('too_many_requests', { detail, retryAfterSeconds: 1 })
    }

    const now = clocks.wall()
    const context = principal?.context ?? publicContext(exchange)
    const assertion = principal === undefined ? noAssertion : mint(principal, now, route.assertionSeconds)
    const out = headers.passed
    // A missing body has no type; an empty stream has one.
    const isStream = route.body === undefined && route.bodyMediaTypes !== undefined
    const isTyped = hasBody || isStream || headers.signed['content-type'] === undefined
    const signed = isTyped ? headers.signed : { ...headers.signed, 'content-type': undefined }
    // undici always sends `Content-Length: 0` for these methods.
    const sendsZero = !hasBody && (method === 'POST' || method === 'PUT' || method === 'PATCH')
    // Leading zeros would be signed but not sent.
    const contentLength = hasBody && length !== undefined ? String(length) : sendsZero ? '0' : undefined
    let signature
    try {
      signature = upstream.signer.sign(
        {
          method,
          target,
          context,
          assertion,
          requestId,
          contentType: signed['content-type'],
          contentLength,
          contentDigest: signed['content-digest'],
          idempotencyKey: signed['idempotency-key'],
          ifMatch: signed['if-match'],
        },
        now,
      )
    } catch (error) {
      if (!(error instanceof UnsignableValueError)) throw error
      return refusal('bad_request', {
        detail: `The header ${error.component} contains invalid characters.`,
        errors: [{ parameter: error.component, code: 'invalid', detail: 'contains invalid characters' }],
      })
    }
    if (signed['content-type'] !== undefined) out.push('content-type', signed['content-type'])
    if (signed['content-digest'] !== undefined) out.push('content-digest', signed['content-digest'])
    if (signed['idempotency-key'] !== undefined) out.push('idempotency-key', signed['idempotency-key'])
    if (signed['if-match'] !== undefined) out.push('if-match', signed['if-match'])
    if (contentLength !== undefined) out.push('content-length', contentLength)
    if (exchange.span !== undefined) replaceHeader(out, 'traceparent', exchange.span.traceparent)
    out.push(
      contextHeader,
      context,
      assertionHeader,
      assertion,
      requestIdHeader,
      requestId,
      signatureInputHeader,
      signature.signatureInput,
      signatureHeader,
      signature.signature,
    )
    forward({
      exchange,
      target: upstream,
      headers: out,
      answerHeaders: callerHeaders(exchange),
      isDraining,
      hasBody,
      maxBodyBytes: route.maxBodyBytes,
      answerWithinMs: route.answerWithinMs,
      clientTimeoutMs,
      openRequests,
      connectionBudget,
      onRefusal,
      onDone: onForwarded,
      onFailure,
    })
    return undefined
  }

  return (exchange) => {
    const { match } = exchange
    if (match.kind !== 'route') throw new Error('only an authorized request is served')
    const { route } = match
    if (exchange.principal !== undefined) usage.used(exchange.principal, exchange.address, route.id)
    return isForwarded(route) ? forwardToService(exchange, route) : answerItself(exchange, match)
  }
}

function bodyFault(exchange: Exchange, route: Route, length: number | undefined): Refusal | undefined {
  if (route.maxBodyBytes === 0) {
    return refusal('bad_request', {
      detail: 'This operation takes no body.',
      errors: [{ pointer: '', code: 'unknown', detail: 'is not accepted by this operation' }],
    })
  }
  if (length !== undefined && length > route.maxBodyBytes) {
    return refusal('content_too_large', {
      detail: `The body may have at most ${route.maxBodyBytes} bytes.`,
    })
  }
  const coding = exchange.request.headers['content-encoding']
  if (coding !== undefined && coding !== 'identity') {
    return refusal('unsupported_media_type', { detail: 'Send the body without a Content-Encoding.' })
  }
  return undefined
}

/** Without a principal, the label is the address of the client. */
function publicContext({ address }: Exchange): string {
  const caller = { tenantId: nilTenantId, kind: 'service', id: 'gateway', label: address } as const
  return serializeContext({ ...caller, scopes: [], roles: [] })
}

function replaceHeader(headers: string[], name: string, value: string): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) if (headers[at] === name) headers.splice(at, 2)
  headers.push(name, value)
}

function isForwarded(route: Route): route is Route & { readonly upstream: keyof Upstreams['targets'] } {
  return route.upstream !== 'gateway'
}
