import { randomUUID } from 'node:crypto'
import {
  type Environment,
  type Logger,
  type Tracing,
  answersWithinMs,
  boundConnections,
  boundUnread,
  closeOnSignal,
  createApp,
  createLogger,
  createMetrics,
  createReadAheadBudget,
  listeningPort,
  openTracing,
  repeatEvery,
  tooManyPipelined,
  warnOfUnknownSettings,
  watchServer,
  watchEventLoop,
} from '@postern/service-kit'
import { refusalFields } from '@postern/sign-in'
import { createAssertionMinter } from '@postern/signed-context'
import { createGatewayApp, requestIdOf } from './app.ts'
import { createAddressMatcher, createRouteMatcher } from '@postern/service-kit/access'
import { createClientAddress, networkOf } from './authenticate/addresses.ts'
import { createAuthenticate } from './authenticate/authenticate.ts'
import { createTokenVerifier } from './authenticate/bearer.ts'
import { systemClocks } from './authenticate/clocks.ts'
import { createTenantCheck } from './authenticate/check-tenants.ts'
import { openLookups } from './authenticate/open-lookups.ts'
import { createAwaitContent } from './await-content.ts'
import { createAuthorizeRequest } from './authorize-request.ts'
import { createCallerHeaders } from './caller-headers.ts'
import { type GatewayConfig, readConfig } from './config.ts'
import { type Exchange, closeConnection, sendProblem } from './exchange.ts'
import { createSharedDatabaseCheck } from './forward/shared-database.ts'
import { NoConnectionError } from './forward/upstream-errors.ts'
import { openUpstreams } from './forward/upstreams.ts'
import { checkOpenRequestsEveryMs, createOpenRequests } from './open-requests.ts'
import { createFailedAttempts } from './limit/failed-attempts.ts'
import { createLimitRequest } from './limit-request.ts'
import { createOpenPublicRequests } from './limit/open-public-requests.ts'
import { createPublicRequests } from './limit/public-requests.ts'
import { createRateLimit } from './limit/rate-limit.ts'
import { createTokenSource } from './limit/token-source.ts'
import { createMatchRequest } from './match-request.ts'
import { createGatewayMetrics, observeGateway } from './metrics.ts'
import { createPipeline } from './pipeline.ts'
import { createRefuse, createReserveWait } from './refusal.ts'
import { createRequestLog, spanOf, traceOf } from './request-log.ts'
import { createResponder } from './serve.ts'
import { createUsage } from './usage.ts'

export interface RunningGateway {
  readonly url: string
  readonly port: number
  readonly adminPort: number
  readonly logger: Logger
  /** Reports usage and releases the lease. */
  close(): Promise<void>
}

/** For requests that wait for a look-up, and for those that wait for a connection. */
const maxReadAheadBytes = 8 * 1024 * 1024
const usageEveryMs = 10_000
const pruneEveryMs = 60_000
const databaseCheckEveryMs = 30_000
const checkTenantsEveryMs = 5000

/** Logs `listening` with its ports. */
export async function startGateway(
  env: Environment,
  options: {
    readonly writeLog?: (line: string) => void
    /** Time for open requests at the end, in milliseconds. */
    readonly answersWithinMs?: number
  } = {},
): Promise<RunningGateway> {
  const config = readConfig(env)
  const logger = createLogger({
    service: 'gateway',
    level: config.logLevel,
    ...(options.writeLog === undefined ? {} : { write: options.writeLog }),
  })
  warnOfUnknownSettings(logger, env)
  if (env['POSTERN_GATEWAY_COUNT'] !== undefined) {
    logger.warn({
      event: 'setting_removed',
      name: 'POSTERN_GATEWAY_COUNT',
      advice: 'Remove it: gateways are counted by their leases.',
    })
  }
  const tracing = await openTracing(config.tracing, {
    service: 'gateway',
    followsCaller: false,
    onFailure: (reason) => logger.warn({ event: 'trace_export_failed', reason }),
  })
  const gateway = assemble(config, logger, tracing, options.answersWithinMs ?? answersWithinMs(config))
  try {
    await gateway.assertTenants()
    await gateway.admin.listen({ host: config.host, port: config.adminPort })
    await gateway.app.listen({ host: config.host, port: config.port })
  } catch (error) {
    await gateway.close()
    throw error
  }
  const [port, adminPort] = [listeningPort(gateway.app), listeningPort(gateway.admin)]
  logger.info({ event: 'listening', host: config.host, port, admin_port: adminPort })
  return { url: `http://${config.host}:${port}`, port, adminPort, logger, close: gateway.close }
}

/** `close` closes the dependencies in reverse order. */
function assemble(config: GatewayConfig, logger: Logger, tracing: Tracing | undefined, withinMs: number) {
  const gateway = randomUUID()
  const clocks = systemClocks
  const { basePath } = config
  const registry = createMetrics('gateway')
  const metrics = createGatewayMetrics(registry)
  const usageIsLate = (): boolean => usage.isLate()
  const lookups = openLookups({ gateway, config, clocks, metrics, usageIsLate, logger })
  const { keysClient, redis, databaseClock, watermarks, lease } = lookups
  const upstreams = openUpstreams(config)
  const openRequests = createOpenRequests({
    lease,
    watermarks,
    clocks,
    databaseClock,
    keys: lookups.keys,
    tenants: lookups.tenants,
    people: lookups.people,
    onEnded: (exchange, code) =>
      logger.info({
        event: 'request_ended',
        request_id: exchange.requestId,
        route: exchange.route?.id,
        code,
        ...traceOf(exchange),
      }),
    onFailure: (error) => logger.error({ event: 'open_requests_check_failed', err: error }),
  })
  lookups.events.on('change', openRequests.checkSoon)
  lookups.events.on('reset', openRequests.requireLookUps)
  const usage = createUsage({
    keys: keysClient,
    now: () => Math.floor(databaseClock.latest() ?? clocks.wall()),
    logger,
  })
  const rateLimit = createRateLimit({
    source: createTokenSource(redis.commands, redis.health.commands.isHealthy),
    clocks,
    gateways: lease.gateways,
  })
  const attempts = {
    redis: redis.commands,
    isHealthy: redis.health.commands.isHealthy,
    clocks,
    limit: config.failedAttemptsPerMinute,
  }
  const failedAttempts = {
    keys: createFailedAttempts({ ...attempts, kind: 'key' }),
    tokens: createFailedAttempts({ ...attempts, kind: 'token' }),
  }
  observeGateway(registry, {
    leaseRemainingMs: lease.remainingMs,
    redis: [redis.health.commands, redis.health.subscription],
    gateways: lease.gateways,
    limitShare: rateLimit.limitShare,
    keysInMemory: () => lookups.keys.size,
  })
  const pressure = watchEventLoop({ maxDelayMs: config.maxEventLoopDelayMs, metrics: registry })
  const requestLog = createRequestLog({ isOn: config.requestLog, clocks, metrics, logger })
  const onCrash = (exchange: Exchange, error: unknown): void => {
    if (requestLog.crashed(exchange, error)) requestLog.done(exchange, exchange.response.statusCode)
  }
  let draining = false
  const isDraining = (): boolean => draining
  const callerHeaders = createCallerHeaders(clocks, databaseClock)
  const clientAddress = createClientAddress(config.trustedProxies, (fault, peer) => {
    if (fault === 'unreadable') logger.warn({ event: 'forwarded_for_unreadable', peer })
    // The console also writes the header.
    else logger.info({ event: 'forwarded_for_not_trusted', peer })
  })
  const lookupBudget = createReadAheadBudget(maxReadAheadBytes)
  const reserveWait = createReserveWait(lookupBudget)
  const handle = createPipeline({
    match: createMatchRequest({
      match: createRouteMatcher(),
      clientAddress: (request, forwardedFor) => clientAddress(request.socket, forwardedFor),
      requestId: requestIdOf,
      maxUrlBytes: config.maxUrlBytes,
      basePath,
      pressure,
      trace: tracing === undefined ? undefined : (exchange) => tracing.begin(spanOf(exchange)),
    }),
    authenticate: createAuthenticate({
      keys: lookups.keys,
      tenants: lookups.tenants,
      people: lookups.people,
      tokens: config.providers.length === 0 ? undefined : createTokenVerifier(config.providers, logger),
      keySchemes: config.keySchemes,
      explainsTokens: config.explainsTokens,
      onToken: (exchange, event, refusal) =>
        logger.info({ event, request_id: exchange.requestId, ...refusalFields(refusal), ...traceOf(exchange) }),
      watermarks,
      databaseClock,
      failedAttempts,
      unreadableRequests: createPublicRequests({ clocks, limit: config.publicRequestsPerMinute }),
      reserveWait,
      usage,
      found: metrics.found,
      onCrash,
    }),
    authorize: createAuthorizeRequest({ rateLimit, usage }),
    limit: createLimitRequest({
      rateLimit,
      publicRequests: createPublicRequests({ clocks, limit: config.publicRequestsPerMinute }),
      usage,
      reserveWait,
    }),
    endWait: ({ request }) => lookupBudget.release(request),
    awaitContent: createAwaitContent({ openRequests, clientTimeoutMs: config.clientTimeoutMs }),
    forward: createResponder({
      apiUrl: config.apiUrl,
      upstreams,
      mint: createAssertionMinter(config.assertionRing),
      clocks,
      callerHeaders,
      usage,
      clientTimeoutMs: config.clientTimeoutMs,
      openRequests,
      connectionBudget: createReadAheadBudget(maxReadAheadBytes),
      isDraining,
      enterPublicRequest: createOpenPublicRequests(Math.ceil(config.tenantConnections / 8)),
      onRefusal: metrics.refusal,
      onDone: requestLog.done,
      onForwarded: (exchange, status) => requestLog.done(exchange, status, true),
      onFailure: (exchange, error) => {
        const upstream = exchange.route?.upstream ?? 'none'
        const of = { request_id: exchange.requestId, route: exchange.route?.id, ...traceOf(exchange) }
        if (error instanceof NoConnectionError) {
          metrics.upstreamPoolExhausted(upstream)
          // There may be thousands per second, so without a stack.
          logger.warn({ event: 'upstream_pool_exhausted', ...of, tenant_id: exchange.principal?.tenantId })
          return
        }
        metrics.upstreamFailure(upstream)
        logger.warn({ event: 'upstream_failed', ...of, err: error })
      },
      onCrash,
    }),
    refuse: createRefuse({
      callerHeaders,
      lookupBudget,
      isDraining,
      onRefusal: (exchange, code) => {
        metrics.refusal(code)
        if (exchange.principal !== undefined) usage.refused(exchange.principal, exchange, code)
        usage.signIn(exchange, code)
        if (code === 'overloaded') pressure.refused()
        requestLog.done(exchange, exchange.response.headersSent ? exchange.response.statusCode : 0)
      },
    }),
    onGone: (exchange) => requestLog.done(exchange, 0),
    onCrash,
  })
  const app = createGatewayApp({
    handle,
    refusePipelined: (request, response) => {
      const requestId = requestIdOf(undefined)
      sendProblem({ request, response, requestId, basePath }, 'too_many_requests', {
        ...tooManyPipelined,
        headers: closeConnection,
      })
      metrics.refusal('too_many_requests')
      metrics.request('none', response.statusCode, 0, false)
    },
    onCrash: (request, response, error) => {
      if (!requestLog.crashed({ request, response, requestId: requestIdOf(undefined), basePath }, error)) return
      metrics.request('none', response.statusCode, 0, false)
    },
    onUnreadable: ({ requestId, socket, code, status, reason }) => {
      metrics.refusal(code)
      metrics.request('none', status, 0, false)
      if (!config.requestLog) return
      const address = clientAddress(socket, undefined)
      logger.info({ event: 'request_unreadable', request_id: requestId, status, code, reason, address })
    },
    maxHeaderBytes: config.maxHeaderBytes,
    clientTimeoutMs: config.clientTimeoutMs,
    keepAliveMs: config.keepAliveMs,
    metrics: registry,
  })
  const isProxy = createAddressMatcher(config.trustedProxies)
  boundConnections(app.server, {
    max: config.maxSockets,
    ownerOf: (address) => (isProxy(address) ? undefined : networkOf(address)),
    metrics: registry,
    logger,
  })
  boundUnread(app.server, {
    maxBytes: config.maxUnreadBytes,
    findOwners: openRequests.findTenants,
    metrics: registry,
  })
  const server = watchServer(app)
  const sharedDatabase = createSharedDatabaseCheck(
    Object.fromEntries(Object.entries(config.upstreams).map(([name, { url }]) => [name, url])),
    logger,
  )
  const admin = createApp({
    config,
    logger,
    metrics: registry,
    ready: async () => {
      if (!lease.isHeld()) throw new Error('no lease')
      sharedDatabase.assertShared()
    },
    degraded: () => Object.values(redis.health).flatMap(({ use, isHealthy }) => (isHealthy() ? [] : [`redis_${use}`])),
    isDraining,
  })
  const adminServer = watchServer(admin)
  void sharedDatabase.refresh()
  lease.start()
  const tenantCheck = createTenantCheck(config.providers, lookups.tenants, logger)
  const timers = [
    setInterval(watermarks.prune, pruneEveryMs),
    setInterval(openRequests.check, checkOpenRequestsEveryMs),
  ]
  const usageReports = repeatEvery(usageEveryMs, usage.flush)
  const checks = [
    repeatEvery(checkTenantsEveryMs, tenantCheck.repeat),
    repeatEvery(databaseCheckEveryMs, sharedDatabase.refresh),
  ]

  return {
    app,
    admin,
    assertTenants: tenantCheck.assertTenants,
    close: async () => {
      draining = true
      await server.close({ drainMs: config.drainMs, withinMs, logger })
      for (const timer of timers) clearInterval(timer)
      for (const check of checks) void check.stop()
      pressure.close()
      await usageReports.stop()
      await usage.flush()
      lease.stop()
      await keysClient.releaseLease(gateway).catch((error: unknown) => {
        logger.warn({ event: 'lease_release_failed', err: error })
      })
      await upstreams.close()
      await redis.close()
      await keysClient.close()
      await adminServer.close({ drainMs: 0, withinMs: 1000, logger })
      await tracing?.close()
    },
  }
}

export async function runGateway(env: Environment): Promise<void> {
  const running = await startGateway(env)
  closeOnSignal(running.logger, running.close)
}
