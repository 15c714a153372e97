import { randomBytes } from 'node:crypto'
import { scimMediaType } from '@postern/contracts'
import { createVerifier } from '@postern/signed-context'
import { type FastifyInstance, type FastifyRequest, fastify } from 'fastify'
import { boundConnections } from './bound-connections.ts'
import { boundPipelining } from './bound-pipelining.ts'
import type { BaseConfig } from './config.ts'
import { assertDigest } from './content-digest.ts'
import type { App } from './register-route.ts'
import { guardRoutes } from './guard.ts'
import { healthRoutes } from './health.ts'
import { parseJsonBody } from './json-body.ts'
import type { Logger } from './logger.ts'
import { type Registry, measureRequests } from './metrics.ts'
import { type Pressure, refuseWhenLate } from './pressure.ts'
import { answerClientError, answerProblems } from './problem-handler.ts'
import { cutSlowBodies } from './slow-bodies.ts'
import { shareAmongTenants } from './share-among-tenants.ts'
import { traceRequests } from './tracing/trace-requests.ts'
import type { Tracing } from './tracing/tracing.ts'

/** Safe in log lines and headers. */
export const requestIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{7,127}$/

export interface AppParts {
  readonly config: BaseConfig
  readonly logger: Logger
  readonly metrics: Registry
  readonly ready: () => Promise<void>
  /** Names parts that are away, for readiness. Requests are still answered. */
  readonly degraded?: (() => readonly string[]) | undefined
  readonly databaseId?: (() => Promise<string | undefined>) | undefined
  readonly isDraining: () => boolean
  readonly pressure?: Pressure | undefined
  readonly tracing?: Tracing | undefined
}

/** Accepts only signed requests. */
export function createApp(parts: AppParts): App {
  const { config, logger, metrics, ready, degraded, databaseId, isDraining, pressure, tracing } = parts
  const app = fastify({
    logger: false,
    // Received requests are answered during the shutdown.
    return503OnClosing: false,
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: 75_000,
    bodyLimit: 1024 * 1024,
    // The gateway's limit, and the headers that it adds.
    http: { maxHeaderSize: 65_536 },
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 1100, caseSensitive: true, ignoreTrailingSlash: false },
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && requestIdPattern.test(given) ? given : newRequestId()
    },
    clientErrorHandler: (error, socket) => answerClientError(error, socket, newRequestId()),
  })
  // Node silently drops headers beyond its maximum, and signed headers come last.
  app.server.maxHeadersCount = 0
  if (pressure === undefined) app.server.maxConnections = config.maxSockets
  else boundConnections(app.server, { max: config.maxSockets, metrics, logger })
  boundPipelining(app, metrics)
  app.decorateRequest('bodyHash', undefined)
  app.decorate('logger', logger)
  app.decorate('checksAnswers', config.checkAnswers)
  readJson(app)
  cutSlowBodies(app, config.bodyTimeoutMs)
  // Internal requests are not refused: they complete work, and gateways need their leases.
  if (pressure !== undefined) {
    refuseWhenLate(app, pressure, ({ routeOptions }) => routeOptions.config.contract !== undefined)
  }
  if (tracing !== undefined) traceRequests(app, tracing)
  measureRequests(app, metrics)
  if (config.requestLog) logRequests(app, logger)
  closeConnectionsWhenDraining(app, isDraining)
  answerProblems(app, logger, config.checkAnswers)
  const verifiers = new Map(
    Object.entries(config.verifiers).map(
      ([name, ring]) => [name, createVerifier(ring, name, { revokedOperators: config.revokedOperators })] as const,
    ),
  )
  guardRoutes(app, verifiers, { logger, metrics })
  if (pressure !== undefined) shareAmongTenants(app, config.shares, metrics)
  healthRoutes(app, { ready, degraded, databaseId, isDraining, metrics })
  return app
}

function newRequestId(): string {
  return randomBytes(12)
    .toString('base64url')
    .replace(/^[^A-Za-z0-9]/, '0')
}

function readJson(app: App): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json', scimMediaType],
    { parseAs: 'buffer' },
    async ({ headers }: FastifyRequest, body: Buffer) => {
      assertDigest(headers['content-digest'], body)
      return parseJsonBody(body)
    },
  )
}

/** Closes each connection with its next answer, so that no request is lost. */
export function closeConnectionsWhenDraining(app: FastifyInstance, isDraining: () => boolean): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isDraining()) reply.header('connection', 'close')
    done(null, payload)
  })
}

function logRequests(app: App, logger: Logger): void {
  app.addHook('onResponse', async (request, reply) => {
    if (request.routeOptions.config.guard === 'open') return
    logger.info({
      event: 'request',
      request_id: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 100) / 100,
      ...(request.tenantContext === undefined
        ? {}
        : { tenant_id: request.tenantContext.tenantId, caller: request.tenantContext.kind }),
    })
  })
}
