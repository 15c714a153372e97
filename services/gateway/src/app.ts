import { randomBytes } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { Socket } from 'node:net'
import type { ProblemCode } from '@postern/contracts'
import { type Registry, answerClientError, createPipelining, requestIdPattern } from '@postern/service-kit'
import { type FastifyInstance, fastify } from 'fastify'
import { stopReading } from './exchange.ts'

/** Bytes that never became a request, and how they were answered. */
export interface Unreadable {
  readonly requestId: string
  readonly socket: Socket
  readonly code: ProblemCode
  readonly status: number
  /** Where the parser stopped, by Node's name for it. */
  readonly reason: string | undefined
}

export interface AppOptions {
  /** `isUnmet`: it has an expectation that is not 100-continue. */
  readonly handle: (request: IncomingMessage, response: ServerResponse, isUnmet: boolean) => void
  /** Answers a request that came over its connection ahead of too many answers. */
  readonly refusePipelined: (request: IncomingMessage, response: ServerResponse) => void
  readonly onCrash: (request: IncomingMessage, response: ServerResponse, error: unknown) => void
  /** What came over the connection was no request, and was answered as that. */
  readonly onUnreadable: (unreadable: Unreadable) => void
  readonly maxHeaderBytes: number
  /** A client has this long to send the head of a request. */
  readonly clientTimeoutMs: number
  /** How long a connection may be idle before it is closed. */
  readonly keepAliveMs: number
  readonly metrics: Registry
}

const idPrefix = randomBytes(9).toString('base64url').replaceAll(/[-_]/g, '0')
let idCount = 0

/** Gives the client's request id when it is well formed, else a new one, unique over all processes. */
export function requestIdOf(given: string | undefined): string {
  if (given !== undefined && requestIdPattern.test(given)) return given
  idCount += 1
  return `${idPrefix}-${idCount.toString(36)}`
}

const readAheadBytes = 16 * 1024

/**
 * The public server. fastify starts it and shuts it down; requests go to `handle` and not through fastify, which would
 * read the path a second time with a router of its own, copy the headers into an object, and answer at 1.1 to 1.2 times
 * the CPU.
 */
export function createGatewayApp(options: AppOptions): FastifyInstance {
  const { handle, refusePipelined, onCrash, onUnreadable, maxHeaderBytes, clientTimeoutMs, keepAliveMs, metrics } =
    options

  let closing = false

  function begin(request: IncomingMessage, response: ServerResponse, isUnmet: boolean): void {
    // On a connection that was busy when the server began to close.
    if (closing) response.setHeader('connection', 'close')
    try {
      handle(request, response, isUnmet)
    } catch (error) {
      onCrash(request, response, error)
    }
    if (closing) stopReading(request)
  }

  const take = createPipelining<boolean>({ begin, refuse: refusePipelined, metrics })

  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      // How much of a body Node reads ahead while its request waits for a decision.
      highWaterMark: readAheadBytes,
      headersTimeout: clientTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      // Uploads may take long; slow bodies are cut by their rate, slow heads by the headers timeout.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.ceil(clientTimeoutMs / 5),
      // A missing Host gets a problem document from us, not Node's empty 400.
      requireHostHeader: false,
      // HOT PATH: without it every GET gets a stream that is opened, read to its end and closed, though it has no body.
      optimizeEmptyRequests: true,
      insecureHTTPParser: false,
    },
    (request, response) => take(request, response, false),
  )
  const app = fastify({
    logger: false,
    forceCloseConnections: 'idle',
    serverFactory: () => server,
    clientErrorHandler: (error, socket) => {
      const requestId = requestIdOf(undefined)
      answerClientError(error, socket, requestId, (code, status) =>
        onUnreadable({ requestId, socket, code, status, reason: error.code }),
      )
    },
  })
  app.addHook('preClose', async () => {
    closing = true
  })
  // Node drops the headers beyond its maximum in silence; how many there may be follows from their size.
  server.maxHeadersCount = 0
  // Only what is let through is told to go on; the proxy's first read asks for it.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    request.once('resume', () => {
      if (!response.headersSent) response.writeContinue()
    })
    take(request, response, false)
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    take(request, response, true)
  })
  return app
}
