import {
  type ProblemCode,
  type Route,
  assertionHeader,
  contextHeader,
  mediaTypesOf,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { type ReadAheadBudget, chooseCoding, matchesEtag, negotiate } from '@postern/service-kit'
import {
  type AssertionMinter,
  UnsignableValueError,
  nilTenantId,
  noAssertion,
  serializeContext,
} from '@postern/signed-context'
import type { Clocks } from './authenticate/clocks.ts'
import type { CallerHeaders } from './caller-headers.ts'
import { type Exchange, type ProblemAnswer, closeConnection, send, sendNotModified, sendProblem } from './exchange.ts'
import { forward } from './forward/proxy.ts'
import type { Upstreams } from './forward/upstreams.ts'
import { type Document, codings, createDocuments } from './documents.ts'
import type { EnterPublicRequest } from './limit/open-public-requests.ts'
import type { OpenRequests } from './open-requests.ts'
import { problemPage } from './problem-pages.ts'
import type { Usage } from './usage.ts'
import { whoamiOf } from './whoami.ts'

const maxNamedParameters = 50

export interface ServeParts {
  readonly apiUrl: string
  readonly upstreams: Upstreams
  readonly mint: AssertionMinter
  readonly clocks: Clocks
  readonly callerHeaders: CallerHeaders
  readonly usage: Pick<Usage, 'used' | 'signIn'>
  /** For each 10 KiB of a body. */
  readonly clientTimeoutMs: number
  readonly openRequests: OpenRequests
  readonly connectionBudget: ReadAheadBudget
  readonly isDraining: () => boolean
  readonly enterPublicRequest: EnterPublicRequest
  readonly onRefusal: (code: ProblemCode) => void
  /** Status 0: the client disconnected. */
  readonly onDone: (exchange: Exchange, status: number) => void
  readonly onForwarded: (exchange: Exchange, status: number) => void
  /** The exchange with a service failed. */
  readonly onFailure: (exchange: Exchange, error: unknown) => void
  /** A document could not be created. */
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

function isKnown({ request }: Exchange, etag: string): boolean {
  const given = request.headers['if-none-match']
  return given !== undefined && matchesEtag(given, etag)
}

const pageHeaders = [
  'cache-control',
  'public, max-age=300',
  'content-security-policy',
  "default-src 'none'; frame-ancestors 'none'",
] as const

export function createResponder(parts: ServeParts): (exchange: Exchange) => void {
  const { upstreams, mint, clocks, callerHeaders, usage, clientTimeoutMs, openRequests, connectionBudget } = parts
  const { apiUrl, isDraining, enterPublicRequest, onRefusal, onDone, onForwarded, onFailure, onCrash } = parts
  const documents = createDocuments(apiUrl)

  function refuse(exchange: Exchange, code: ProblemCode, answer: ProblemAnswer): void {
    sendProblem(exchange, code, { ...answer, headers: answerHeaders(exchange) })
    onRefusal(code)
    onDone(exchange, exchange.response.statusCode)
  }

  function answerHeaders(exchange: Exchange): string[] {
    const headers = callerHeaders(exchange)
    if (isDraining()) headers.push(...closeConnection)
    return headers
  }

  function answerDocument(exchange: Exchange, document: Promise<Document>, headers: readonly string[]): void {
    document
      .then(({ mediaType, headers: own, coded, ...plain }) => {
        const coding = chooseCoding(exchange.request.headers['accept-encoding'], codings)
        const { content, etag } = coding === undefined ? plain : coded[coding]
        const shared = ['etag', etag, 'cache-control', 'public, max-age=60', 'vary', 'accept-encoding']
        if (isKnown(exchange, etag)) {
          sendNotModified(exchange, [...shared, ...headers])
        } else {
          const encoding = coding === undefined ? [] : ['content-encoding', coding]
          send(exchange, 200, mediaType, content, [...shared, ...encoding, ...own, ...headers])
        }
        onDone(exchange, exchange.response.headersSent ? exchange.response.statusCode : 0)
      })
      .catch((error: unknown) => onCrash(exchange, error))
  }

  function answerItself(exchange: Exchange, route: Route, params: Readonly<Record<string, string | undefined>>): void {
    const { principal } = exchange
    const headers = answerHeaders(exchange)
    // Silently ignored parameters would hide mistakes.
    if (exchange.target.includes('?') && route.path.startsWith('/api/')) {
      const names = [...new URLSearchParams(exchange.target.slice(exchange.target.indexOf('?') + 1)).keys()]
      const detail = 'is not a parameter of this operation'
      refuse(exchange, 'bad_request', {
        detail: 'This operation takes no parameters in the query.',
        errors: (names.length === 0 ? [''] : names.slice(0, maxNamedParameters)).map((parameter) => {
          return { parameter, code: 'unknown', detail }
        }),
      })
      return
    }
    const offered = mediaTypesOf(route)
    if (negotiate(exchange.request.headers.accept, offered) === undefined) {
      refuse(exchange, 'not_acceptable', { detail: `This resource is available as ${offered.join(', ')}.` })
      return
    }
    switch (route.id) {
      case 'gateway.whoami':
        if (principal === undefined) throw new Error('whoami is for a known caller')
        usage.signIn(exchange)
        send(
          exchange,
          200,
          'application/json; charset=utf-8',
          Buffer.from(JSON.stringify(whoamiOf(principal))),
          headers,
        )
        break
      case 'gateway.openapi':
        answerDocument(exchange, documents.openApi(), headers)
        return
      case 'gateway.agent-openapi':
        answerDocument(exchange, documents.agentOpenApi(), headers)
        return
      case 'gateway.swagger':
        answerDocument(exchange, documents.swagger(), headers)
        return
      case 'gateway.reference':
        answerDocument(exchange, documents.reference(), headers)
        return
      case 'gateway.reference-script':
        answerDocument(exchange, documents.referenceScript(), headers)
        return
      case 'gateway.guides':
        answerDocument(exchange, documents.guides(), headers)
        return
      case 'gateway.guide': {
        const guide = documents.guide(params['guide'] ?? '')
        if (guide === undefined) {
          refuse(exchange, 'not_found', { detail: 'There is no such guide. `/docs/guides` lists all guides.' })
        } else {
          answerDocument(exchange, guide, headers)
        }
        return
      }
      case 'gateway.problem': {
        const page = problemPage(params['slug'] ?? '')
        if (page === undefined) {
          refuse(exchange, 'not_found', { detail: 'There is no such problem type.' })
          return
        }
        send(exchange, 200, 'text/html; charset=utf-8', Buffer.from(page), [...pageHeaders, ...headers])
        break
      }
      default:
        throw new Error(`the gateway has no answer for ${route.id}`)
    }
    onDone(exchange, exchange.response.statusCode)
  }

  function bodyFault(exchange: Exchange, route: Route, hasBody: boolean, length: number | undefined): boolean {
    if (!hasBody) return false
    if (route.maxBodyBytes === 0) {
      refuse(exchange, 'bad_request', {
        detail: 'This operation takes no body.',
        errors: [{ pointer: '', code: 'unknown', detail: 'is not accepted by this operation' }],
      })
      return true
    }
    if (length !== undefined && length > route.maxBodyBytes) {
      refuse(exchange, 'content_too_large', {
        detail: `The body may have at most ${route.maxBodyBytes} bytes.`,
      })
      return true
    }
    const coding = exchange.request.headers['content-encoding']
    if (coding !== undefined && coding !== 'identity') {
      refuse(exchange, 'unsupported_media_type', { detail: 'Send the body without a Content-Encoding.' })
      return true
    }
    return false
  }

  function forwardToService(
    exchange: Exchange,
    route: Route & { readonly upstream: keyof Upstreams['targets'] },
  ): void {
    const { headers, principal, method, target, requestId } = exchange
    const upstream = upstreams.targets[route.upstream]
    const given = headers.signed['content-length']
    const length = given === undefined ? undefined : Number(given)
    const isChunked = headers.read['transfer-encoding'] !== undefined
    // RFC 9112, section 6.3: chunks without content are no body.
    const hasBody = isChunked ? exchange.hasContent !== false : length !== undefined && length > 0
    if (bodyFault(exchange, route, hasBody, length)) return
    if (principal === undefined && !enterPublicRequest(exchange)) {
      const detail = 'Too many requests without credentials are open from this address. Wait for their answers.'
      refuse(exchange, 'too_many_requests', { detail, retryAfterSeconds: 1 })
      return
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
      refuse(exchange, 'bad_request', {
        detail: `The header ${error.component} contains invalid characters.`,
        errors: [{ parameter: error.component, code: 'invalid', detail: 'contains invalid characters' }],
      })
      return
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
  }

  return (exchange) => {
    const { match } = exchange
    if (match.kind !== 'route') throw new Error('only an authorized request is served')
    const { route, params } = match
    if (exchange.principal !== undefined) usage.used(exchange.principal, exchange.address, route.id)
    if (isForwarded(route)) {
      forwardToService(exchange, route)
      return
    }
    answerItself(exchange, route, params)
  }
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
