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
import { type AnswerHeaders, Turn } from './connections.ts'
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
  /** Whether the process ends soon: the client is then asked to come back over another connection. Known when the answer begins. */
  readonly isDraining: () => boolean
  readonly hasBody: boolean
  readonly maxBodyBytes: number
  readonly answerWithinMs: number
  /** A body that brings less than 10 KiB in this time, without being held up by the service, is given up. */
  readonly clientTimeoutMs: number
  /** Where it is known while it is open. */
  readonly openRequests: Pick<OpenRequests, 'add' | 'remove'>
  /** Bounds what requests hold that wait for a connection. */
  readonly connectionBudget: ReadAheadBudget
  /** Called once with the status, or with 0 when the client went away first. */
  readonly onDone: (exchange: Exchange, status: number) => void
  /** Called when the service failed, and not for what the client did wrong. */
  readonly onFailure: (exchange: Exchange, error: unknown) => void
}

/** The headers that an answer to a route may have, by route. */
const passedByRoute = new Map(routeTable.map((route) => [route, passedAnswerHeaders(route)]))
const noHeaders: ReadonlySet<string> = new Set()

/** Names in a Connection header: fields of one hop (RFC 9110 §7.6.1). */
function namedIn(connection: string | string[] | undefined): ReadonlySet<string> {
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
function publish(value: string, basePath: string): string {
  return value.startsWith('/') ? basePath + value : value.replaceAll('</', `<${basePath}/`)
}

/**
 * A request waits this long for a connection: a service that hangs must not hold ever more clients, and a signature that
 * has aged in a queue would be refused.
 */
const connectionWithinMs = 10_000

/**
 * Sends a request to its service once and streams the answer back; bodies flow both ways without being held. HOT PATH:
 * `dispatch` with one handler object a request, since undici's stream API costs 1.2 to 1.7 times the CPU.
 */
export function forward(forwarding: Forwarding): void {
  const { exchange, target, headers, hasBody, maxBodyBytes, answerWithinMs, clientTimeoutMs } = forwarding
  const { request, response, method } = exchange
  const body = hasBody ? limitBody(request, maxBodyBytes, clientTimeoutMs) : null
  const handler = new AnswerHandler(forwarding, body)
  // Not `once`, which makes a function of its own and takes it away again: the handler knows when it is done.
  response.on('close', handler.onClientClose)
  if (exchange.principal !== undefined) forwarding.openRequests.add(handler)
  target.pool.dispatch(
    {
      path: exchange.target,
      // A method that is not in the route table never comes here.
      method: methodOf(method),
      headers,
      body,
      headersTimeout: answerWithinMs,
      // The same for a pause in the answer: undici then keeps one timer for both, and need not set it anew in between.
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

/** Up to here a head and a body fit into the buffer on the stack from which Node writes a string. */
const maxTextBytes = 8192

/** Ends an answer whose whole body is there. HOT PATH. */
function endAtOnce(response: ServerResponse, body: Buffer): void {
  if (body.length > maxTextBytes) {
    response.end(body)
    return
  }
  // As text of one byte a character the body joins the head in one string, and one plain write. As bytes it would be the
  // second of three parts (head, body, end) that Node collects, copies and hands over as a list.
  response.write(body.toString('latin1'), 'latin1')
  response.socket?.uncork()
  response.end()
}

/** Writes one upstream answer to one client. A class, because undici calls methods of one object a request. */
class AnswerHandler extends Turn implements OpenRequest {
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

  /** Bounds the wait for a connection when none was free at once. */
  awaitConnection(): void {
    if (this.#done || this.#controller !== undefined) return
    if (!this.hasConnection && !this.#forwarding.connectionBudget.reserve(this.exchange.request)) {
      this.#fail(new NoConnectionError())
      return
    }
    this.#timer = setTimeout(() => this.#fail(new NoConnectionError()), connectionWithinMs)
  }

  /** The answer was received whole, or the client went away: the upstream need not go on then. */
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
      this.#sayWhetherItCloses()
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
    // 1xx is between the gateway and the service.
    if (status < 200) return
    // Who the client is was decided before. Passed on, this would tell a good key that it is bad.
    if (status === 401) {
      controller.abort(new SignatureRefusedError())
      return
    }
    const { exchange, answerHeaders: out, target } = this.#forwarding
    this.#sayWhetherItCloses()
    out.push('x-request-id', exchange.requestId, 'api-version', apiVersion)
    let hasCacheControl = false
    const passed = (exchange.route === undefined ? undefined : passedByRoute.get(exchange.route)) ?? noHeaders
    // The length that HEAD announces is of a body that does not follow. The client, which sent a POST, would wait for it.
    const isHeadInPost = exchange.method === 'HEAD' && exchange.request.method !== 'HEAD'
    if (isHeadInPost) out.push('content-length', '0')
    const ofThisHop = namedIn(headers['connection'])
    this.#publishesType = target.basePath !== '' && String(headers['content-type']).startsWith(problemMediaType)
    for (const name in headers) {
      // The type of a problem grows by the base path.
      if (this.#publishesType && name === 'content-length') continue
      if (!passed.has(name) || ofThisHop.has(name) || (isHeadInPost && name === 'content-length')) continue
      const value = headers[name]
      if (value === undefined) continue
      if (name === 'cache-control') hasCacheControl = true
      if (target.basePath !== '' && hasTarget(name)) out.push(name, publish(String(value), target.basePath))
      else if (typeof value === 'string') out.push(name, value)
      else for (const one of value) out.push(name, one)
      if (name === 'content-length') this.#length = Number(value)
    }
    // What a key may read now it may not read after its revocation, so no cache may keep it (RFC 9111 §5.2.2.5).
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
    // The whole body in one piece: head and body leave in one write.
    if (chunk.length === this.#length && (this.#body === null || request.complete)) {
      endAtOnce(response, chunk)
      return
    }
    countPassedBytes(chunk.length)
    if (response.write(chunk)) return
    controller.pause()
    // The upstream is let go too: an answer that waits behind another one on its connection is never told of its end.
    this.#timer = setTimeout(() => controller.abort(new Error('the client takes nothing')), stalledReaderMs)
    this.#timer.unref()
    response.once('drain', () => {
      clearTimeout(this.#timer)
      controller.resume()
    })
  }

  protected ended(): void {
    if (this.#done) return
    const { exchange } = this.#forwarding
    // The answer may come before the upload has ended: nobody wants the rest of it any more.
    if (this.#body !== null) endAnswer(exchange, this.#closes)
    else {
      if (!exchange.response.writableEnded) exchange.response.end()
      limitReader(exchange.response)
    }
    this.#finish(this.#status)
  }

  #sayWhetherItCloses(): void {
    const { exchange, answerHeaders, isDraining } = this.#forwarding
    this.#closes = isDraining() || (this.#body !== null && hasLargeRemainder(exchange.request, true))
    if (!this.#closes) return
    stopReading(exchange.request)
    answerHeaders.push(...closeConnection)
  }

  protected failed(error: Error): void {
    this.#fail(error)
  }

  #fail(error: Error): void {
    if (this.#done) return
    const { exchange, answerHeaders, onFailure } = this.#forwarding
    if (!isFaultOfClient(error)) onFailure(exchange, error)
    if (exchange.response.headersSent) {
      // Cut, never ended: a client must be able to tell half an answer from a whole one.
      this.#finish(this.#status)
      exchange.response.destroy()
      return
    }
    const { code, detail, errors } = upstreamFailure(error)
    const status = code === 'service_unavailable' ? { retryAfterSeconds: 1 } : {}
    this.#sayWhetherItCloses()
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
