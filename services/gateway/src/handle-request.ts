import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProblemCode } from '@postern/contracts'
import { type Pressure, type ReadAheadBudget, type Span, tooBusy } from '@postern/service-kit'
import { type TargetRefusal, canonicalTarget } from '@postern/signed-context'
import type { Authenticate, Outcomes } from './authenticate/authenticate.ts'
import type { Principal } from './authenticate/principal.ts'
import { denialOf } from './authorize/access.ts'
import { type Match, type RouteMatcher, matchOverride } from './authorize/route-match.ts'
import type { CallerHeaders } from './caller-headers.ts'
import { type Exchange, type ProblemAnswer, closeConnection, isTakenNoMore, sendProblem } from './exchange.ts'
import type { PublicRequests } from './limit/public-requests.ts'
import { type Limits, type RateLimit, type Verdict, limitInWords } from './limit/rate-limit.ts'
import type { OpenRequest, OpenRequests } from './open-requests.ts'
import { peekBody } from './peek-body.ts'
import { readHeaders } from './sign/read-headers.ts'

/** The five steps, each a part of its own. */
export interface Steps {
  readonly match: RouteMatcher
  readonly authenticate: Authenticate
  readonly rateLimit: RateLimit
  readonly publicRequests: PublicRequests
  /** Those that come without credentials, or with what can be none. */
  readonly unreadableRequests: PublicRequests
  readonly callerHeaders: CallerHeaders
  /** Answers or forwards what has been authorized; in the same tick as the decision. */
  readonly serve: (exchange: Exchange, match: Extract<Match, { kind: 'route' }>) => void
  readonly clientAddress: (request: IncomingMessage, forwardedFor: string | undefined) => string
  readonly requestId: (given: string | undefined) => string
  readonly maxUrlBytes: number
  /** The first bytes of a body in chunks must come within this time. */
  readonly clientTimeoutMs: number
  readonly openRequests: Pick<OpenRequests, 'add' | 'remove'>
  /** Bounds what requests hold that wait for a look-up. */
  readonly lookupBudget: ReadAheadBudget
  readonly pressure: Pick<Pressure, 'isLate'>
  readonly isDraining: () => boolean
  /** Called once for a request that the gateway refused. */
  readonly onRefusal: (exchange: Exchange, code: ProblemCode) => void
  /** Called once for a request of somebody whom the gateway knows that is refused for what is asked, or for how often. */
  readonly onUnserved: (principal: Principal, address: string) => void
  /** Called once for a request of a known caller who lacks the scope or the role that the route needs. */
  readonly onDenied: (principal: Principal, address: string) => void
  /** Called once for a request whose client went away before anything was done for it. */
  readonly onGone: (exchange: Exchange) => void
  readonly onCrash: (exchange: Exchange, error: unknown) => void
  /** Begins the trace of a request; undefined where tracing is off. */
  readonly trace: ((exchange: Exchange) => Span) | undefined
}

/**
 * Handles one request: canonical target, route, authentication, authorization, limits, then `serve`. HOT PATH: plain
 * functions without a promise while the key is in memory and tokens are at hand.
 */
export function createRequestHandler(
  steps: Steps,
): (request: IncomingMessage, response: ServerResponse, isUnmet?: boolean) => void {
  const {
    match: matchRoute,
    authenticate,
    rateLimit,
    publicRequests,
    unreadableRequests,
    callerHeaders,
    serve,
    clientAddress,
    requestId,
    maxUrlBytes,
    clientTimeoutMs,
    openRequests,
    lookupBudget,
    pressure,
    isDraining,
    onRefusal,
    onUnserved,
    onDenied,
    onGone,
    onCrash,
    trace,
  } = steps

  function refuse(exchange: Exchange, code: ProblemCode, { headers = [], ...answer }: ProblemAnswer = {}): void {
    const closing = isDraining() && !headers.includes('connection') ? closeConnection : []
    // The rest of its body is dropped from now on, however long the client takes to send it.
    lookupBudget.release(exchange.request)
    sendProblem(exchange, code, { ...answer, headers: [...callerHeaders(exchange), ...headers, ...closing] })
    onRefusal(exchange, code)
  }

  /**
   * Refuses a request of which it is not certain where it ends, and takes nothing more from its connection: what Node reads
   * as the next request, and would carry out before the connection is closed, may have been hidden in a body.
   */
  function refuseAndEnd(exchange: Exchange, code: ProblemCode, detail: string): void {
    refuse(exchange, code, { detail, headers: closeConnection })
  }

  function refuseLimited(exchange: Exchange, verdict: Extract<Verdict, { kind: 'refused' }>): void {
    if (exchange.principal !== undefined) onUnserved(exchange.principal, exchange.address)
    refuse(exchange, 'too_many_requests', {
      detail: limitInWords(verdict.bucket, exchange.principal),
      retryAfterSeconds: verdict.retryAfterSeconds,
    })
  }

  /** Reserves what a request holds while it waits for a look-up. Refuses it if too much waits already. */
  function mayWait(exchange: Exchange): boolean {
    const { request, response } = exchange
    // The response of a connection that is gone emits no `close`, which releases the reservation.
    if (request.socket.destroyed) return true
    if (lookupBudget.reserve(request)) {
      response.once('close', () => lookupBudget.release(request))
      return true
    }
    refuse(exchange, 'overloaded', tooBusy)
    return false
  }

  /** Counts a request of an address. Refuses it where there have been too many. */
  function isWithin(requests: PublicRequests, exchange: Exchange, what: string): boolean {
    const waitSeconds = requests.take(exchange.address)
    if (waitSeconds === 0) return true
    // What else the connection has brought costs nothing then.
    refuse(exchange, 'too_many_requests', {
      detail: `Too many requests from this address ${what}.`,
      retryAfterSeconds: waitSeconds,
      headers: closeConnection,
    })
    return false
  }

  /** Authorizes a principal that has just been accepted. Gives the limits to take a token of, or undefined when refused. */
  function authorize(exchange: Exchange, principal: Principal): Limits | undefined {
    exchange.principal = principal
    const limits = rateLimit.limitsOf(principal)
    exchange.limits = limits
    const { match } = exchange
    if (match.kind === 'method') {
      refuse(exchange, 'method_not_allowed', {
        detail: `This resource supports ${match.allowed.join(', ')}.`,
        headers: ['allow', match.allowed.join(', ')],
      })
      return undefined
    }
    if (match.kind === 'none') {
      refuse(exchange, 'not_found', { detail: 'There is no such route. The OpenAPI document lists them all.' })
      return undefined
    }
    const denial = denialOf(match.route, principal)
    if (denial !== undefined) {
      onDenied(principal, exchange.address)
      const { code, ...answer } = denial
      refuse(exchange, code, answer)
      return undefined
    }
    return limits
  }

  /** Waits until it is known whether a body in chunks has content. `next` decides on the request, whatever was decided before. */
  function awaitContent(exchange: Exchange, next: () => void): void {
    const close = (): void => {
      stop()
      openRequests.remove(open)
    }
    const open: OpenRequest = {
      exchange,
      checkedAt: 0,
      checkedRound: 0,
      openIndex: -1,
      end: (code, answer) => {
        close()
        refuse(exchange, code, answer)
      },
      abandon: () => {
        close()
        onGone(exchange)
      },
    }
    const stop = peekBody(exchange.request, clientTimeoutMs, {
      onKnown: (hasContent) => {
        close()
        exchange.hasContent = hasContent
        try {
          next()
        } catch (error) {
          onCrash(exchange, error)
        }
      },
      onLate: () => {
        close()
        refuse(exchange, 'request_timeout', { detail: 'The body came in too slowly. Send it faster.' })
      },
      onGone: () => open.abandon(),
    })
    if (exchange.principal !== undefined) openRequests.add(open)
  }

  const outcomes: Outcomes = {
    accepted: (exchange, principal, hasToken) => {
      const limits = authorize(exchange, principal)
      if (limits === undefined || exchange.match.kind !== 'route') {
        onUnserved(principal, exchange.address)
        return 'done'
      }
      if (!hasToken && !exchange.hasTokens && !rateLimit.tryTake(limits)) return limits
      exchange.hasTokens = true
      lookupBudget.release(exchange.request)
      if (isContentUnknown(exchange)) awaitContent(exchange, () => authenticate(exchange, outcomes))
      else serve(exchange, exchange.match)
      return 'done'
    },
    refused: refuse,
    // The limit of failed attempts bounds look-ups, of which this takes none. Counted apart from what needs no key, of which it takes nothing away.
    unreadable: (exchange, code, answer) => {
      if (isWithin(unreadableRequests, exchange, 'without credentials, or with what can be none')) {
        refuse(exchange, code, answer)
      }
    },
    limited: refuseLimited,
    mayWait,
    gone: onGone,
  }

  function take(exchange: Exchange, target: ReturnType<typeof canonicalTarget>, isUnmet: boolean): void {
    const { request, headers, match } = exchange
    if (request.httpVersionMajor !== 1 || (headers.read.host === undefined && request.httpVersionMinor !== 0)) {
      refuseAndEnd(exchange, 'malformed_http', 'Send HTTP/1.1 with one Host header.')
      return
    }
    if (!isFramingPlain(request, headers.read['transfer-encoding'])) {
      refuseAndEnd(exchange, 'malformed_http', 'The only transfer coding is chunked, and HTTP/1.0 has none.')
      return
    }
    if (headers.duplicate !== undefined) {
      refuseAndEnd(exchange, 'duplicate_header', `Send the header ${headers.duplicate} once.`)
      return
    }
    if (isUnmet) {
      // Whether the body comes all the same is for the client to decide, who may take the answer for a reason not to send it.
      refuseAndEnd(exchange, 'expectation_failed', 'The only expectation that can be met is 100-continue.')
      return
    }
    if (pressure.isLate) {
      refuse(exchange, 'overloaded', tooBusy)
      return
    }
    if (!target.ok) {
      refuse(exchange, target.reason === 'too_long' ? 'uri_too_long' : 'non_canonical_path', {
        detail: targetRemedy(target.reason),
      })
      return
    }
    if (match.kind === 'route' && match.route.access.kind === 'public') {
      if (!isWithin(publicRequests, exchange, 'for what needs no key')) return
      if (isContentUnknown(exchange)) awaitContent(exchange, () => serve(exchange, match))
      else serve(exchange, match)
      return
    }
    authenticate(exchange, outcomes)
  }

  return (request, response, isUnmet = false) => {
    if (isTakenNoMore(request)) return
    const headers = readHeaders(request.rawHeaders)
    let method = request.method ?? ''
    const url = request.url ?? ''
    const target = canonicalTarget(url, maxUrlBytes)
    let found: Match = target.ok ? matchRoute(method, target.path) : { kind: 'none' }
    const override = method === 'POST' ? headers.read['x-http-method-override'] : undefined
    if (override !== undefined && target.ok) {
      // Before scope and signature, which are those of the method that is meant.
      const meant = matchOverride(matchRoute, override, target.path, found)
      if (meant?.kind === 'route') method = override
      found = meant ?? found
    }
    const exchange: Exchange = {
      request,
      response,
      method,
      target: url,
      requestId: requestId(headers.read['x-request-id']),
      startedAt: performance.now(),
      headers,
      address: clientAddress(request, headers.read['x-forwarded-for']),
      match: found,
      route: found.kind === 'route' ? found.route : undefined,
      principal: undefined,
      key: undefined,
      tenant: undefined,
      limits: undefined,
      hasTokens: false,
      hasContent: undefined,
      span: undefined,
    }
    if (trace !== undefined) exchange.span = trace(exchange)
    // The connection was reset, while what had come over it was still to be read. For nobody nothing is done: the audit trail could not say where from.
    if (exchange.address === '') {
      request.socket.destroy()
      onGone(exchange)
      return
    }
    try {
      take(exchange, target, isUnmet)
    } catch (error) {
      onCrash(exchange, error)
    }
  }
}

function isContentUnknown({ headers, hasContent }: Exchange): boolean {
  return headers.read['transfer-encoding'] !== undefined && hasContent === undefined
}

/** A coding under the chunks would reach the service as if it were the content; HTTP/1.0 knows no chunks (RFC 9112 §6.1). */
function isFramingPlain(request: IncomingMessage, transferEncoding: string | undefined): boolean {
  if (transferEncoding === undefined) return true
  return request.httpVersionMinor !== 0 && transferEncoding.toLowerCase() === 'chunked'
}

function targetRemedy(reason: TargetRefusal): string {
  switch (reason) {
    case 'too_long':
      return 'Shorten the URL.'
    case 'not_origin_form':
      return 'Send the path and query alone on the request line, not a whole URL.'
    case 'forbidden_character':
      return 'Percent-encode characters that may not stand in a URL; backslash and semicolon may not occur in a path at all.'
    case 'bad_escape':
      return 'Each % must be followed by two hexadecimal digits, and the escapes must be UTF-8.'
    case 'forbidden_escape':
      return 'Write letters, digits, - . _ and ~ as themselves; slashes, backslashes and control characters may not be escaped.'
    case 'dot_segment':
      return 'Remove the dot segments.'
    case 'empty_segment':
      return 'Remove the empty segment (//).'
    default:
      return reason satisfies never
  }
}
