import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Pressure, type Span, tooBusy } from '@postern/service-kit'
import { type Match, type RouteMatcher, matchOverride, targetRemedy } from '@postern/service-kit/access'
import { type TargetRefusal, canonicalTarget } from '@postern/signed-context'
import { type Exchange, closeConnection } from './exchange.ts'
import { type Refusal, refusal } from './refusal.ts'
import { type ClientHeaders, readHeaders } from './sign/read-headers.ts'

export type MatchRequest = (request: IncomingMessage, response: ServerResponse, isUnmet: boolean) => Exchange

export interface MatchParts {
  readonly match: RouteMatcher
  readonly clientAddress: (request: IncomingMessage, forwardedFor: string | undefined) => string
  readonly requestId: (given: string | undefined) => string
  readonly maxUrlBytes: number
  readonly basePath: string
  readonly pressure: Pick<Pressure, 'isLate'>
  /** Returns undefined if tracing is off. */
  readonly trace: ((exchange: Exchange) => Span) | undefined
}

/** The same bytes of the target are matched, signed and forwarded. */
export function createMatchRequest(parts: MatchParts): MatchRequest {
  const { match, clientAddress, requestId, maxUrlBytes, basePath, pressure, trace } = parts
  return (request, response, isUnmet) => {
    const headers = readHeaders(request.rawHeaders)
    let method = request.method ?? ''
    const url = request.url ?? ''
    const target = canonicalTarget(url, maxUrlBytes)
    let found: Match = target.ok ? match(method, target.path) : { kind: 'none' }
    const override = method === 'POST' ? headers.read['x-http-method-override'] : undefined
    if (override !== undefined && target.ok) {
      // Resolved before scope and signature, which are those of the override method.
      const meant = matchOverride(match, override, target.path, found)
      if (meant?.kind === 'route') method = override
      found = meant ?? found
    }
    const exchange: Exchange = {
      request,
      response,
      method,
      target: url,
      requestId: requestId(headers.read['x-request-id']),
      basePath,
      startedAt: performance.now(),
      headers,
      address: clientAddress(request, headers.read['x-forwarded-for']),
      fault:
        framingFault(request, headers, isUnmet) ??
        (pressure.isLate ? refusal('overloaded', tooBusy) : undefined) ??
        (target.ok ? undefined : targetFault(target.reason)),
      match: found,
      route: found.kind === 'route' ? found.route : undefined,
      principal: undefined,
      key: undefined,
      tenant: undefined,
      tokenEndsAt: undefined,
      person: undefined,
      limits: undefined,
      hasContent: undefined,
      span: undefined,
    }
    if (trace !== undefined) exchange.span = trace(exchange)
    return exchange
  }
}

function framingFault(request: IncomingMessage, headers: ClientHeaders, isUnmet: boolean): Refusal | undefined {
  if (request.httpVersionMajor !== 1 || (headers.read.host === undefined && request.httpVersionMinor !== 0)) {
    return closingRefusal('malformed_http', 'Send HTTP/1.1 with one Host header.')
  }
  if (!isFramingPlain(request, headers.read['transfer-encoding'])) {
    return closingRefusal('malformed_http', 'The only transfer coding is chunked, and HTTP/1.0 has none.')
  }
  if (headers.duplicate !== undefined) {
    return closingRefusal('duplicate_header', `Send the header ${headers.duplicate} once.`)
  }
  // The client may or may not send its body after the answer.
  if (isUnmet) return closingRefusal('expectation_failed', 'The only expectation that can be met is 100-continue.')
  return undefined
}

/** Closes the connection, so that Node cannot read a hidden request from the body. */
function closingRefusal(code: Refusal['code'], detail: string): Refusal {
  return refusal(code, { detail, headers: closeConnection })
}

/** RFC 9112, section 6.1. */
function isFramingPlain(request: IncomingMessage, transferEncoding: string | undefined): boolean {
  if (transferEncoding === undefined) return true
  return request.httpVersionMinor !== 0 && transferEncoding.toLowerCase() === 'chunked'
}

function targetFault(reason: TargetRefusal): Refusal {
  return refusal(reason === 'too_long' ? 'uri_too_long' : 'non_canonical_path', { detail: targetRemedy(reason) })
}
