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
import {
  ClientStalledError,
  NoConnectionError,
  SignatureRefusedError,
  isFaultOfClient,
  upstreamFailure,
} from './upstream-errors.ts'
import type { UpstreamTarget } from './upstreams.ts'

export interface Forwarding {
  readonly exchange: Exchange
  readonly target: UpstreamTarget
  readonly headers: string[]
  readonly answerHeaders: string[]
  readonly isDraining: () => boolean
  readonly hasBody: boolean
  readonly maxBodyBytes: number
  readonly answerWithinMs: number
  /** A slower body than 10 KiB in this time fails, unless the service is slow. */
  readonly clientTimeoutMs: number
  readonly openRequests: Pick<OpenRequests, 'add' | 'remove'>
  readonly connectionBudget: ReadAheadBudget
  /** The caller has lost its access. */
  readonly onRefusal: (code: ProblemCode) => void
  /** Status 0: the client disconnected first. */
  readonly onDone: (exchange: Exchange, status: number) => void
  /** Not called for errors of the client. */
  readonly onFailure: (exchange: Exchange, error: unknown) => void
}

const passedByRoute = new Map(routeTable.map((route) => [route, passedAnswerHeaders(route)]))
const noHeaders: ReadonlySet<string> = new Set()

/** Fields of one hop (RFC 9110 §7.6.1). */
function parseConnectionHeader(connection: string | string[] | undefined): ReadonlySet<string> {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return noHeaders
  return new Set(
    String(connection)
      .split(',')
      .map((name) => name.trim().toLowerCase()),
  )
}

function hasTarget(name: string): boolean {
  return name === 'location' || name === 'link'
}

function prependBasePath(value: string, basePath: string): string {
  return value.startsWith('/') ? basePath + value : value.replaceAll('</', `<${basePath}/`)
}

/** The wait for a connection. After a longer one the service would reject the signature. */
const connectionWithinMs = 10_000

/**
 * HOT PATH: `dispatch` with one handler object for each request, because undici's stream API needs more processor time.
 */
export function forward(forwarding: Forwarding): void {
  const { exchange, target, headers, hasBody, maxBodyBytes, answerWithinMs, clientTimeoutMs } = forwarding
  const { request, response, method } = exchange
  const body = hasBody ? limitBody(request, maxBodyBytes, clientTimeoutMs) : null
  const handler = new AnswerHandler(forwarding, body)
  // `once` would allocate a function. The handler ignores a second call.
  response.on('close', handler.onClientClose)
  if (exchange.principal !== undefined) forwarding.openRequests.add(handler)
  target.pool.dispatch(
    {
      path: exchange.target,
      method: methodOf(method),
      headers,
      body,
      headersTimeout: answerWithinMs,
      // Equal, so that undici keeps one timer for both.
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

const maxTextBytes = 8192

/** HOT PATH. */
function endAtOnce(response: ServerResponse, body: Buffer): void {
  if (body.length > maxTextBytes) {
    response.end(body)
    return
  }
  // A latin1 string joins the head in one write.
  response.write(body.toString('latin1'), 'latin1')
  response.socket?.uncork()
  response.end()
}

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
  /** The next piece begins a problem document whose type lacks the base path. */
  #publishesType = false
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

  awaitConnection(): void {
    if (this.#done || this.#controller !== undefined) return
    if (!this.hasConnection && !this.#forwarding.connectionBudget.reserve(this.exchange.request)) {
      this.#fail(new NoConnectionError())
      return
    }
    this.#timer = setTimeout(() => this.#fail(new NoConnectionError()), connectionWithinMs)
  }

  onClientClose = (): void => {
    this.#forwarding.openRequests.remove(this)
    this.abandon()
  }

  abandon(): void {
    if (this.#done) return
    this.#finish(0)
    this.#controller?.abort(new Error('the client disconnected'))
  }

  end(code: ProblemCode, answer: ProblemAnswer): void {
    const { exchange, answerHeaders, onRefusal } = this.#forwarding
    const { request, response } = exchange
    onRefusal(code)
    if (response.headersSent) {
      if (!this.#done) this.#finish(this.#status)
      // A reset also discards what the kernel was still to send. An answer that waits on the connection ends there.
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
    if (this.#done) controller.abort(new Error('the client disconnected'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200) return
    // The service rejects the gateway's signature, not the client's key.
    if (status === 401) {
      controller.abort(new SignatureRefusedError())
      return
    }
    const { exchange, answerHeaders: out, target } = this.#forwarding
    this.#announceClose()
    out.push('x-request-id', exchange.requestId, 'api-version', apiVersion)
    let hasCacheControl = false
    const passed = (exchange.route === undefined ? undefined : passedByRoute.get(exchange.route)) ?? noHeaders
    // A HEAD answer announces a length without a body; the client's POST would wait for it.
    const isHeadInPost = exchange.method === 'HEAD' && exchange.request.method !== 'HEAD'
    if (isHeadInPost) out.push('content-length', '0')
    const ofThisHop = parseConnectionHeader(headers['connection'])
    this.#publishesType = target.basePath !== '' && String(headers['content-type']).startsWith(problemMediaType)
    for (const name in headers) {
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
    // RFC 9111 §5.2.2.5: no cache may store what a revoked key may not read.
    if (!hasCacheControl) out.push('cache-control', 'no-store')
    this.#status = status
    exchange.response.writeHead(status, out)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { request, response } = this.#forwarding.exchange
    if (this.#publishesType) {
      this.#publishesType = false
      chunk = publishType(chunk, this.#forwarding.target.basePath)
    }
    // Head and whole body are sent in one write.
    if (chunk.length === this.#length && (this.#body === null || request.complete)) {
      endAtOnce(response, chunk)
      return
    }
    countPassedBytes(chunk.length)
    if (response.write(chunk)) return
    controller.pause()
    this.#timer = setTimeout(() => controller.abort(new ClientStalledError()), stalledReaderMs)
    this.#timer.unref()
    response.once('drain', () => {
      clearTimeout(this.#timer)
      controller.resume()
    })
  }

  protected onEnd(): void {
    if (this.#done) return
    const { exchange } = this.#forwarding
    // The answer may come before the upload has ended.
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
      // Destroyed, so that the client can tell half an answer from a whole one.
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
