import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type ProblemCode,
  type Route,
  apiVersion,
  headersOnEveryAnswer,
  isScimTarget,
  problemDocument,
  problemMediaType,
  problemTypes,
  scimError,
  scimMediaType,
  scimStatusOf,
} from '@postern/contracts'
import { type ProblemOptions, type Span, countPassedBytes, onceRead } from '@postern/service-kit'
import type { TenantRecord } from '@postern/contracts/internal'
import type { KeyEntry } from './authenticate/key-lookup.ts'
import type { Principal } from './authenticate/principal.ts'
import type { Match } from './authorize/route-match.ts'
import type { Limits } from './limit/rate-limit.ts'
import type { Refusal } from './refusal.ts'
import type { ClientHeaders } from './sign/read-headers.ts'

/** One request on its way through the gateway. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  /** As it came: canonical, or refused. */
  readonly target: string
  readonly requestId: string
  /** What the public URL of the API has before its paths; empty if nothing. */
  readonly basePath: string
  readonly startedAt: number
  readonly headers: ClientHeaders
  readonly address: string
  /** Why the head of the request cannot be served; undefined if it can. */
  readonly fault: Refusal | undefined
  readonly match: Match
  /** Undefined where the route table names none. */
  readonly route: Route | undefined
  principal: Principal | undefined
  /** What it was accepted for: a key's record, or the tenant of a person. Checked again while it is open. */
  key: KeyEntry | undefined
  tenant: TenantRecord | undefined
  limits: Limits | undefined
  /** Whether its tokens have been taken. */
  hasTokens: boolean
  /** Of a body in chunks, whether it has content; undefined until that is known. */
  hasContent: boolean | undefined
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

export const closeConnection = ['connection', 'close'] as const

/** Of a body that nobody wants, as much is read for a connection that lives on. Before more, the answer says that it ends. */
const shortRestBytes = 1024 * 1024
/** As much is read all the same, and for so many times so long, so that who sends still gets the answer. Then the connection is cut. */
const mostRestBytes = 64 * 1024 * 1024
const restWithinMs = 5000
const mostRestTimes = 3
/** A client that takes nothing of its answer for this long is cut off. */
export const stalledReaderMs = 60_000

/** Answers with a problem document (RFC 9457), below `/scim/v2` with an error of SCIM. The one place in the gateway that does. */
export function sendProblem(
  { request, response, requestId, basePath, route }: Answerable & Pick<Exchange, 'basePath'> & Partial<Exchange>,
  code: ProblemCode,
  answer: ProblemAnswer = {},
): void {
  const { headers = [], retryAfterSeconds, ...options } = answer
  const isScim = isScimTarget(request.url ?? '')
  const document = isScim ? scimError(code, requestId, options) : problemDocument(code, requestId, options)
  const body = publishType(Buffer.from(JSON.stringify(document)), basePath)
  const status = isScim ? scimStatusOf(code) : problemTypes[code].status
  const mediaType = isScim ? scimMediaType : problemMediaType
  const extra = retryAfterSeconds === undefined ? [] : ['retry-after', String(retryAfterSeconds)]
  const always = route === undefined ? [] : headersOnEveryAnswer(route).flat()
  send({ request, response, requestId }, status, mediaType, body, [...extra, ...always, ...headers])
}

const typeStart = Buffer.from('{"type":"')

/** Puts the base path before the `type` of a problem document, which is its first member. */
export function publishType(document: Buffer, basePath: string): Buffer {
  if (basePath === '' || !document.subarray(0, typeStart.length).equals(typeStart)) return document
  return Buffer.concat([typeStart, Buffer.from(basePath), document.subarray(typeStart.length)])
}

type Answerable = Pick<Exchange, 'request' | 'response' | 'requestId'>

/** Answers with a body that the gateway made itself. */
export function send(
  exchange: Answerable,
  status: number,
  contentType: string,
  body: Buffer,
  headers: readonly string[] = [],
): void {
  const { request, requestId } = exchange
  const own = headers.includes('cache-control') ? ownHeaders.slice(2) : ownHeaders
  const head = ['content-type', contentType, 'content-length', String(body.length), 'x-request-id', requestId, ...own]
  answerWith(exchange, status, [...head, ...headers], request.method === 'HEAD' ? undefined : body)
}

/** Answers that the client has what it asks for. */
export function sendNotModified(exchange: Answerable, headers: readonly string[]): void {
  answerWith(exchange, 304, ['x-request-id', exchange.requestId, ...ownHeaders.slice(2), ...headers])
}

function answerWith(
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  status: number,
  headers: readonly string[],
  body?: Buffer,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const isClosing = headers.includes('connection')
  const closes = isClosing || hasLargeRemainder(request, false)
  response.writeHead(status, closes && !isClosing ? [...headers, ...closeConnection] : [...headers])
  // Node says so by itself where a body was announced and not asked for.
  if (closes || !response.shouldKeepAlive) stopReading(request)
  endAnswer({ request, response }, closes, body)
}

const ended = new WeakSet<object>()

/**
 * Lets nothing more be carried out that comes over the connection of a request whose answer says that it is the last
 * (RFC 9112 §9.6). To be called before that is said: the answer may wait behind others, while Node reads on.
 */
export function stopReading({ socket }: IncomingMessage): void {
  ended.add(socket)
}

/** Whether nothing that comes over the connection is to be carried out. */
export function isReadingStopped({ socket }: IncomingMessage): boolean {
  return ended.has(socket) || socket.writableEnded
}

/** Whether so much of a body may still come that the answer is to say that the connection ends. `ifUnknown`: of one in chunks. */
export function hasLargeRemainder(request: IncomingMessage, ifUnknown: boolean): boolean {
  if (request.complete) return false
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  return coding === undefined ? Number(length ?? 0) > shortRestBytes : ifUnknown
}

/** Bounds how long the end of an answer, already written, waits for a client that does not read it. */
export function limitReader(response: ServerResponse): void {
  if (response.writableLength > 0) response.setTimeout(stalledReaderMs)
}

/**
 * Ends an answer of which all is written, but for `body`. What is left of the request's body is read and thrown away first:
 * Node closes the connection of an answer that has ended and `closes` it, TCP resets what is closed with bytes unread, and
 * the client might never see its answer (RFC 9112 §9.6). It is told at once that nothing more comes.
 */
export function endAnswer(
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  closes: boolean,
  body?: Buffer,
): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  const isRead = (length === undefined && coding === undefined) || request.readableEnded || request.destroyed
  // The end of an answer in chunks is sent when it is ended.
  const waits = !isRead && !request.complete && !response.writableEnded && !response.chunkedEncoding
  if (!waits) {
    if (!response.writableEnded) response.end(body)
  } else if (body === undefined) response.flushHeaders()
  else response.write(body)
  limitReader(response)
  if (isRead) return
  // Not where it waits behind another answer on its connection. Node closes by itself where a body was announced and not asked for.
  if (waits && (closes || !response.shouldKeepAlive)) response.socket?.end()
  if (!request.complete) limitDrain(request)
  if (waits) request.once('end', () => response.end())
  request.resume()
}

/** Cuts a connection over which too much of a body comes, for too long, or no more. */
function limitDrain(request: IncomingMessage): void {
  let rest = mostRestBytes
  let times = mostRestTimes
  let isSilent = true
  const look = (): void => {
    times -= 1
    if (isSilent || times === 0) request.socket.destroy()
    isSilent = true
  }
  const timer = setInterval(() => onceRead(look), restWithinMs)
  timer.unref()
  request.on('data', (chunk: Buffer) => {
    isSilent = false
    countPassedBytes(chunk.length)
    rest -= chunk.length
    if (rest < 0) request.socket.destroy()
  })
  request.once('close', () => clearInterval(timer))
}
