import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ProblemCode,
  type Route,
  apiVersion,
  isScimTarget,
  problemDocument,
  problemMediaType,
  problemTypes,
  scimError,
  scimMediaType,
  scimStatusOf,
} from '@postern/contracts'
import type { ProblemOptions, Span } from '@postern/service-kit'
import type { Principal } from './authenticate/principal.ts'
import type { Match } from './authorize/route-match.ts'
import type { Limits } from './limit/rate-limit.ts'
import type { ClientHeaders } from './sign/read-headers.ts'

/** One request on its way through the gateway. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  /** As it came: canonical, or refused. */
  readonly target: string
  readonly requestId: string
  readonly startedAt: number
  readonly headers: ClientHeaders
  readonly address: string
  readonly match: Match
  /** Undefined where the route table names none. */
  readonly route: Route | undefined
  principal: Principal | undefined
  limits: Limits | undefined
  /** Of its trace, where tracing is on. */
  span: Span | undefined
}

export interface ProblemAnswer extends Omit<ProblemOptions, 'cause'> {
  /** Further headers, alternating names and values. */
  readonly headers?: readonly string[]
}

/** Answers of the gateway itself are never cached, sniffed or framed. */
const ownHeaders = [
  'cache-control',
  'no-store',
  'x-content-type-options',
  'nosniff',
  'api-version',
  apiVersion,
] as const

/** How much of a body that nobody wants is read, and for how long, before its connection is cut. */
const maxRestBytes = 1024 * 1024
const restWithinMs = 5000
/** A client that takes nothing of its answer for this long is cut off. */
export const stalledReaderMs = 60_000

/** Answers with a problem document (RFC 9457), below `/scim/v2` with an error of SCIM. The one place in the gateway that does. */
export function sendProblem(
  { request, response, requestId }: Pick<Exchange, 'request' | 'response' | 'requestId'>,
  code: ProblemCode,
  answer: ProblemAnswer = {},
): void {
  const { headers = [], retryAfterSeconds, ...options } = answer
  const isScim = isScimTarget(request.url ?? '')
  const document = isScim ? scimError(code, requestId, options) : problemDocument(code, requestId, options)
  const body = Buffer.from(JSON.stringify(document))
  const status = isScim ? scimStatusOf(code) : problemTypes[code].status
  const mediaType = isScim ? scimMediaType : problemMediaType
  const extra = retryAfterSeconds === undefined ? [] : ['retry-after', String(retryAfterSeconds)]
  send({ request, response, requestId }, status, mediaType, body, [...extra, ...headers])
}

/** Answers with a body that the gateway made itself. */
export function send(
  { request, response, requestId }: Pick<Exchange, 'request' | 'response' | 'requestId'>,
  status: number,
  contentType: string,
  body: Buffer,
  headers: readonly string[] = [],
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const own = headers.includes('cache-control') ? ownHeaders.slice(2) : ownHeaders
  response.writeHead(status, [
    'content-type',
    contentType,
    'content-length',
    String(body.length),
    'x-request-id',
    requestId,
    ...own,
    ...headers,
  ])
  response.end(request.method === 'HEAD' ? undefined : body)
  limitReader(response)
  drainRest(request)
}

/** Bounds how long the end of an answer, already written, waits for a client that does not read it. */
export function limitReader(response: ServerResponse): void {
  if (response.writableLength > 0) response.setTimeout(stalledReaderMs)
}

/**
 * Reads what is left of the body of a request that has been answered, and throws it away. To close the connection at once
 * would make TCP reset it, and the client might never see its answer. A body that is too long or too slow is cut off.
 */
export function drainRest(request: IncomingMessage): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  if ((length === undefined && coding === undefined) || request.readableEnded || request.destroyed) return
  request.unpipe()
  if (!request.complete) {
    let rest = maxRestBytes
    const timer = setTimeout(() => request.socket.destroy(), restWithinMs)
    timer.unref()
    request.on('data', (chunk: Buffer) => {
      rest -= chunk.length
      if (rest < 0) request.socket.destroy()
    })
    request.once('close', () => clearTimeout(timer))
  }
  request.resume()
}
