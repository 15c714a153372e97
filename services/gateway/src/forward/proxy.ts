import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { type ProblemCode, apiVersion, passedAnswerHeaders, problemMediaType, routeTable } from '@postern/contracts'
import { type ReadAheadBudget, countPassedBytes } from '@postern/service-kit'
import type { Dispatcher } from 'undici'
import {
  type Exchange,
  type ProblemAnswer,
  closeConnection,
  endAnswer,
  hasLargeRemainder,
  limitReader,
  publishType,
  sendProblem,
  stalledReaderMs,
  stopReading,
} from '../exchange.ts'
import { type AnswerHeaders, PooledRequest } from './connections.ts'
import type { OpenRequest, OpenRequests } from '../open-requests.ts'
import { limitBody } from './limit-body.ts'
import { NoConnectionError, SignatureRefusedError, isFaultOfClient, upstreamFailure } from './upstream-errors.ts'
import type { UpstreamTarget } from './upstreams.ts'

export interface Forwarding {
  readonly exchange: Exchange
  readonly target: UpstreamTarget
  /** Alternating names and values, the platform's own headers included. */
  readonly headers: string[]
  /** Alternating names and values; the answer's own headers are added to it. */
  readonly answerHeaders: string[]
  /** Whether the process ends soon. The answer then closes the client's connection. Called when the answer begins. */
  readonly isDraining: () => boolean
  readonly hasBody: boolean
  readonly maxBodyBytes: number
  readonly answerWithinMs: number
  /** A body of which less than 10 KiB arrive in this time fails, unless the service is slow. */
  readonly clientTimeoutMs: number
  /** Holds the request while it is open. */
  readonly openRequests: Pick<OpenRequests, 'add' | 'remove'>
  /** Limits the bytes of requests that wait for a connection. */
  readonly connectionBudget: ReadAheadBudget
  /** Called once with the status, or with 0 if the client disconnected first. */
  readonly onDone: (exchange: Exchange, status: number) => void
  /** Called when the service failed, but not for errors of the client. */
  readonly onFailure: (exchange: Exchange, error: unknown) => void
}

/** The headers that an answer to a route may have, by route. */
const passedByRoute = new Map(routeTable.map((route) => [route, passedAnswerHeaders(route)]))
const noHeaders: ReadonlySet<string> = new Set()

/** Names in a Connection header: fields of one hop (RFC 9110 §7.6.1). */
function parseConnectionHeader(connection: string | string[] | undefined): ReadonlySet<string> {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return noHeaders
  return new Set(
    String(connection)
      .split(',')
      .map((name) => name.trim().toLowerCase()),
  )
}

/** Whether the header names a target of the API. */
function hasTarget(name: string): boolean {
  return name === 'location' || name === 'link'
}

/** Puts the base path before a path-absolute `Location`, and before each such target of a `Link`. */
function prependBasePath(value: string, basePath: string): string {
  return value.startsWith('/') ? basePath + value : value.replaceAll('</', `<${basePath}/`)
}

/** A request waits this long for a connection. After a longer wait the service would reject its signature. */
const connectionWithinMs = 10_000

/**
 * Sends a request to its service once and streams both bodies. HOT PATH: `dispatch` with one handler object for each request, because
 * undici's stream API needs more processor time.
 */
export function forward(forwarding: Forwarding): void {
  const { exchange, target, headers, hasBody, maxBodyBytes, answerWithinMs, clientTimeoutMs } = forwarding
  const { request, response, method } = exchange
  const body = hasBody ? limitBody(request, maxBodyBytes, clientTimeoutMs) : null
  const handler = new AnswerHandler(forwarding, body)
  // `on` instead of `once`, which would allocate a function. The handler ignores a second call.
  response.on('close', handler.onClientClose)
  if (exchange.principal !== undefined) forwarding.openRequests.add(handler)
  target.pool.dispatch(
    {
      path: exchange.target,
      // Only methods of the route table reach this step.
      method: methodOf(method),
      headers,
      body,
      headersTimeout: answerWithinMs,
      // The same limit for a pause in the answer, so that undici keeps one timer for both.
      bodyTimeout: answerWithinMs,
      idempotent: false,
    },
    handler,
    exchange.principal?.tenantId ?? '',
  )
  handler.awaitConnection()
}

function methodOf(method: string): Dispatcher.HttpMethod {
  switch (method) {
    case 'GET':
    case 'HEAD':
    case 'POST':
    case 'PUT':
    case 'PATCH':
    case 'DELETE':
    case 'OPTIONS':
      return method
    default:
      throw new Error('the route table names no such method')
  }
}

/** Longer bodies are written as bytes. */
const maxTextBytes = 8192

/** Ends an answer whose whole body is there. HOT PATH. */
function endAtOnce(response: ServerResponse, body: Buffer): void {
  if (body.length > maxTextBytes) {
    response.end(body)
    return
  }
  // As a latin1 string the body joins the head in one write.
  response.write(body.toString('latin1'), 'latin1')
  response.socket?.uncork()
  response.end()
}

/** Writes one upstream answer to one client. A class, because undici calls methods of one object a request. */
class AnswerHandler extends PooledRequest implements OpenRequest {
  readonly exchange: Exchange
  checkedAt = 0
  checkedRound = 0
  openIndex = -1
  readonly #forwarding: Forwarding
  readonly #body: Readable | null
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #length = -1
  #closes = false
  #done = false
  /** Whether the next piece is the beginning of a problem document whose type lacks the base path. */
  #publishesType = false
  /** Runs while the client, or a free connection, is waited for. */
  #timer: NodeJS.Timeout | undefined

  constructor(forwarding: Forwarding, body: Readable | null) {
    super()
    this.#forwarding = forwarding
    this.exchange = forwarding.exchange
    this.#body = body
  }

  isOver(): boolean {
    return this.#done
  }

  /** Limits the wait for a connection if none was free at once. */
  awaitConnection(): void {
    if (this.#done || this.#controller !== undefined) return
    if (!this.hasConnection && !this.#forwarding.connectionBudget.reserve(this.exchange.request)) {
      this.#fail(new NoConnectionError())
      return
    }
    this.#timer = setTimeout(() => this.#fail(new NoConnectionError()), connectionWithinMs)
  }

  /** The client has the whole answer or has disconnected. */
  onClientClose = (): void => {
    this.#forwarding.openRequests.remove(this)
    this.abandon()
  }

  abandon(): void {
    if (this.#done) return
    this.#finish(0)
    this.#controller?.abort(new Error('the client went away'))
  }

  end(code: ProblemCode, answer: ProblemAnswer): void {
    const { exchange, answerHeaders } = this.#forwarding
    const { request, response } = exchange
    if (response.headersSent) {
      if (!this.#done) this.#finish(this.#status)
      // With a reset, which also discards what the kernel was still to send. An answer that waits for its turn on the connection ends there.
      if (response.socket === null) response.destroy()
      else request.socket.resetAndDestroy()
    } else if (!this.#done) {
      this.#announceClose()
      sendProblem(exchange, code, { ...answer, headers: [...answerHeaders, ...(answer.headers ?? [])] })
      this.#finish(response.statusCode)
    }
    this.#controller?.abort(new Error('the caller has lost its access'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    this.#forwarding.connectionBudget.release(this.exchange.request)
    if (this.#done) controller.abort(new Error('the client went away'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    // Interim responses (1xx) are not passed on.
    if (status < 200) return
    // The service rejects the gateway's signature. The client must not read this as a verdict on its key.
    if (status === 401) {
      controller.abort(new SignatureRefusedError())
      return
    }
    const { exchange, answerHeaders: out, target } = this.#forwarding
    this.#announceClose()
    out.push('x-request-id', exchange.requestId, 'api-version', apiVersion)
    let hasCacheControl = false
    const passed = (exchange.route === undefined ? undefined : passedByRoute.get(exchange.route)) ?? noHeaders
    // A HEAD answer announces a length without a body. The client sent a POST and would wait for that body.
    const isHeadInPost = exchange.method === 'HEAD' && exchange.request.method !== 'HEAD'
    if (isHeadInPost) out.push('content-length', '0')
    const ofThisHop = parseConnectionHeader(headers['connection'])
    this.#publishesType = target.basePath !== '' && String(headers['content-type']).startsWith(problemMediaType)
    for (const name in headers) {
      // The type of a problem grows by the base path.
      if (this.#publishesType && name === 'content-length') continue
      if (!passed.has(name) || ofThisHop.has(name) || (isHeadInPost && name === 'content-length')) continue
      const value = headers[name]
      if (value === undefined) continue
      if (name === 'cache-control') hasCacheControl = true
      if (target.basePath !== '' && hasTarget(name)) out.push(name, prependBasePath(String(value), target.basePath))
      else if (typeof value === 'string') out.push(name, value)
      else for (const one of value) out.push(name, one)
      if (name === 'content-length') this.#length = Number(value)
    }
    // No cache may store what a key may not read after its revocation (RFC 9111 §5.2.2.5).
    if (!hasCacheControl) out.push('cache-control', 'no-store')
    this.#status = status
    exchange.response.writeHead(status, out)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { request, response } = this.#forwarding.exchange
    if (this.#publishesType) {
      // A service writes a problem document, or the beginning of a long one, in one piece.
      this.#publishesType = false
      chunk = publishType(chunk, this.#forwarding.target.basePath)
    }
    // The chunk is the whole body: head and body are sent in one write.
    if (chunk.length === this.#length && (this.#body === null || request.complete)) {
      endAtOnce(response, chunk)
      return
    }
    countPassedBytes(chunk.length)
    if (response.write(chunk)) return
    controller.pause()
    // Releases the service's connection too: an answer that waits behind another one gets no `close`.
    this.#timer = setTimeout(() => controller.abort(new Error('the client takes nothing')), stalledReaderMs)
    this.#timer.unref()
    response.once('drain', () => {
      clearTimeout(this.#timer)
      controller.resume()
    })
  }

  protected onEnd(): void {
    if (this.#done) return
    const { exchange } = this.#forwarding
    // The answer may come before the upload has ended. The rest of the body is discarded.
    if (this.#body !== null) endAnswer(exchange, this.#closes)
    else {
      if (!exchange.response.writableEnded) exchange.response.end()
      limitReader(exchange.response)
    }
    this.#finish(this.#status)
  }

  #announceClose(): void {
    const { exchange, answerHeaders, isDraining } = this.#forwarding
    this.#closes = isDraining() || (this.#body !== null && hasLargeRemainder(exchange.request, true))
    if (!this.#closes) return
    stopReading(exchange.request)
    answerHeaders.push(...closeConnection)
  }

  protected onFailure(error: Error): void {
    this.#fail(error)
  }

  #fail(error: Error): void {
    if (this.#done) return
    const { exchange, answerHeaders, onFailure } = this.#forwarding
    if (!isFaultOfClient(error)) onFailure(exchange, error)
    if (exchange.response.headersSent) {
      // Destroyed instead of ended, so that the client can tell half an answer from a whole one.
      this.#finish(this.#status)
      exchange.response.destroy()
      return
    }
    const { code, detail, errors } = upstreamFailure(error)
    const status = code === 'service_unavailable' ? { retryAfterSeconds: 1 } : {}
    this.#announceClose()
    sendProblem(exchange, code, { detail, errors, headers: answerHeaders, ...status })
    this.#finish(exchange.response.statusCode)
  }

  #finish(status: number): void {
    this.#done = true
    if (this.#timer !== undefined) clearTimeout(this.#timer)
    if (this.#body?.readableEnded === false) this.#body.destroy()
    this.#forwarding.connectionBudget.release(this.exchange.request)
    this.#forwarding.onDone(this.#forwarding.exchange, status)
  }
}
