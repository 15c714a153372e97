import { randomBytes } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { Socket } from 'node:net'
import type { ProblemCode } from '@postern/contracts'
import { type Registry, answerClientError, createPipelining, requestIdPattern } from '@postern/service-kit'
import { type FastifyInstance, fastify } from 'fastify'
import { stopReading } from './exchange.ts'

export interface UnreadableRequest {
  readonly requestId: string
  readonly socket: Socket
  readonly code: ProblemCode
  readonly status: number
  readonly reason: string | undefined
}

export interface AppOptions {
  /** `isUnmet`: an expectation other than 100-continue. */
  readonly handle: (request: IncomingMessage, response: ServerResponse, isUnmet: boolean) => void
  readonly refusePipelined: (request: IncomingMessage, response: ServerResponse) => void
  readonly onCrash: (request: IncomingMessage, response: ServerResponse, error: unknown) => void
  readonly onUnreadable: (unreadable: UnreadableRequest) => void
  readonly maxHeaderBytes: number
  readonly clientTimeoutMs: number
  readonly keepAliveMs: number
  readonly metrics: Registry
}

const idPrefix = randomBytes(9).toString('base64url').replaceAll(/[-_]/g, '0')
let idCount = 0

/** The client's request id if valid, otherwise a new one. */
export function requestIdOf(given: string | undefined): string {
  if (given !== undefined && requestIdPattern.test(given)) return given
  idCount += 1
  return `${idPrefix}-${idCount.toString(36)}`
}

const readAheadBytes = 16 * 1024

/** Handles requests without fastify's router, which would parse the path again and copy the headers. */
export function createGatewayApp(options: AppOptions): FastifyInstance {
  const { handle, refusePipelined, onCrash, onUnreadable, maxHeaderBytes, clientTimeoutMs, keepAliveMs, metrics } =
    options

  let closing = false

  function begin(request: IncomingMessage, response: ServerResponse, isUnmet: boolean): void {
    if (closing) response.setHeader('connection', 'close')
    try {
      handle(request, response, isUnmet)
    } catch (error) {
      onCrash(request, response, error)
    }
    if (closing) stopReading(request)
  }

  const accept = createPipelining<boolean>({ begin, refuse: refusePipelined, metrics })

  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      // Limits the body that Node reads ahead during the decision.
      highWaterMark: readAheadBytes,
      headersTimeout: clientTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      requestTimeout: 0,
      connectionsCheckingInterval: Math.ceil(clientTimeoutMs / 5),
      // Node would answer a missing Host with an empty 400.
      requireHostHeader: false,
      // HOT PATH: otherwise Node opens a stream for every GET without a body.
      optimizeEmptyRequests: true,
      insecureHTTPParser: false,
    },
    (request, response) => accept(request, response, false),
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
  // Node silently drops headers beyond its maximum; their size limits their number.
  server.maxHeadersCount = 0
  // Only accepted requests get 100-continue, at the proxy's first read.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    request.once('resume', () => {
      if (!response.headersSent) response.writeContinue()
    })
    accept(request, response, false)
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    accept(request, response, true)
  })
  return app
}
