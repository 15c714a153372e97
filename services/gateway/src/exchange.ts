import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ProblemCode,
  type Route,
  apiVersion,
  problemDocument,
  problemMediaType,
  problemTypes,
} from '@postern/contracts'
import type { ProblemOptions } from '@postern/service-kit'
import type { Principal } from './authenticate/principal.ts'
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
  /** Undefined where the route table names none. */
  readonly route: Route | undefined
  principal: Principal | undefined
  limits: Limits | undefined
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

/** A body up to this size is read to its end after a refusal, so that the connection can be used again. */
const readableRestBytes = 64 * 1024

/** Answers with a problem document (RFC 9457). The one place in the gateway that does. */
export function sendProblem(
  { request, response, requestId }: Pick<Exchange, 'request' | 'response' | 'requestId'>,
  code: ProblemCode,
  answer: ProblemAnswer = {},
): void {
  const { headers = [], retryAfterSeconds, ...options } = answer
  const body = Buffer.from(JSON.stringify(problemDocument(code, requestId, options)))
  const extra = retryAfterSeconds === undefined ? [] : ['retry-after', String(retryAfterSeconds)]
  send({ request, response, requestId }, problemTypes[code].status, problemMediaType, body, [...extra, ...headers])
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
    ...(hasLongRest(request) ? ['connection', 'close'] : []),
  ])
  response.end(request.method === 'HEAD' ? undefined : body)
}

function hasLongRest(request: IncomingMessage): boolean {
  if (request.complete) return false
  const length = request.headers['content-length']
  if (length !== undefined) return Number(length) > readableRestBytes
  return request.headers['transfer-encoding'] !== undefined
}
