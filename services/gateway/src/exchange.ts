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
import { type ProblemOptions, type Span, countPassedBytes, runAfterPendingReads } from '@postern/service-kit'
import type { PersonLookup, PersonRecord, TenantRecord } from '@postern/contracts/internal'
import type { KeyEntry } from './authenticate/key-lookup.ts'
import type { Principal } from './authenticate/principal.ts'
import type { Match } from '@postern/service-kit/access'
import type { Limits } from './limit/rate-limit.ts'
import type { Refusal } from './refusal.ts'
import type { ClientHeaders } from './sign/read-headers.ts'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  /** Unchanged; a target that is not canonical is rejected. */
  readonly target: string
  readonly requestId: string
  readonly basePath: string
  readonly startedAt: number
  readonly headers: ClientHeaders
  readonly address: string
  readonly fault: Refusal | undefined
  readonly match: Match
  /** Undefined for unknown routes. */
  readonly route: Route | undefined
  principal: Principal | undefined
  /** Checked again while the request is open. */
  key: KeyEntry | undefined
  tenant: TenantRecord | undefined
  /** When the access token is no longer accepted, in epoch milliseconds. */
  tokenEndsAt: number | undefined
  /** Set if a directory decides whether the person is active. */
  person: { readonly query: PersonLookup; readonly isRequired: boolean; readonly record: PersonRecord } | undefined
  limits: Limits | undefined
  /** Undefined until known. */
  hasContent: boolean | undefined
  span: Span | undefined
}

export interface ProblemAnswer extends Omit<ProblemOptions, 'cause'> {
  readonly headers?: readonly string[]
}

/** Answers of the gateway itself are never cached or sniffed. */
const ownHeaders = [
  'cache-control',
  'no-store',
  'x-content-type-options',
  'nosniff',
  'api-version',
  apiVersion,
] as const

export const closeConnection = ['connection', 'close'] as const

/** A larger unwanted body closes the connection. */
const largeRemainderBytes = 1024 * 1024
/** Beyond these limits an unwanted body cuts the connection. */
const maxDrainBytes = 64 * 1024 * 1024
const drainCheckMs = 5000
const maxDrainChecks = 3
/** For a client that reads nothing of its answer. */
export const stalledReaderMs = 60_000

/** RFC 9457, or a SCIM error below `/scim/v2`. */
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

/** `type` is the first member of a problem document. */
export function publishType(document: Buffer, basePath: string): Buffer {
  if (basePath === '' || !document.subarray(0, typeStart.length).equals(typeStart)) return document
  return Buffer.concat([typeStart, Buffer.from(basePath), document.subarray(typeStart.length)])
}

type Answerable = Pick<Exchange, 'request' | 'response' | 'requestId'>

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
  // Node closes the connection if an announced body was not requested.
  if (closes || !response.shouldKeepAlive) stopReading(request)
  endAnswer({ request, response }, closes, body)
}

const ended = new WeakSet<object>()

/**
 * Prevents further requests on a closing connection (RFC 9112, section 9.6). Call it first, because Node reads ahead.
 */
export function stopReading({ socket }: IncomingMessage): void {
  ended.add(socket)
}

export function isReadingStopped({ socket }: IncomingMessage): boolean {
  return ended.has(socket) || socket.writableEnded
}

/** `ifUnknown` applies to chunked bodies. */
export function hasLargeRemainder(request: IncomingMessage, ifUnknown: boolean): boolean {
  if (request.complete) return false
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  return coding === undefined ? Number(length ?? 0) > largeRemainderBytes : ifUnknown
}

export function limitReader(response: ServerResponse): void {
  if (response.writableLength > 0) response.setTimeout(stalledReaderMs)
}

/** Closing with unread bytes resets the connection, and the client may lose the answer (RFC 9112, section 9.6). */
export function endAnswer(
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  closes: boolean,
  body?: Buffer,
): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  const isRead = (length === undefined && coding === undefined) || request.readableEnded || request.destroyed
  // Ending a chunked answer sends its end.
  const waits = !isRead && !request.complete && !response.writableEnded && !response.chunkedEncoding
  if (!waits) {
    if (!response.writableEnded) response.end(body)
  } else if (body === undefined) response.flushHeaders()
  else response.write(body)
  limitReader(response)
  if (isRead) return
  // Not for an answer that waits behind another one.
  if (waits && (closes || !response.shouldKeepAlive)) response.socket?.end()
  if (!request.complete) limitDrain(request)
  if (waits) request.once('end', () => response.end())
  request.resume()
}

function limitDrain(request: IncomingMessage): void {
  let bytesLeft = maxDrainBytes
  let checksLeft = maxDrainChecks
  let isSilent = true
  const checkProgress = (): void => {
    checksLeft -= 1
    if (isSilent || checksLeft === 0) request.socket.destroy()
    isSilent = true
  }
  const timer = setInterval(() => runAfterPendingReads(checkProgress), drainCheckMs)
  timer.unref()
  request.on('data', (chunk: Buffer) => {
    isSilent = false
    countPassedBytes(chunk.length)
    bytesLeft -= chunk.length
    if (bytesLeft < 0) request.socket.destroy()
  })
  request.once('close', () => clearInterval(timer))
}
