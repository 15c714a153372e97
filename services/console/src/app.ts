import { randomBytes } from 'node:crypto'
import {
  type Logger,
  type Pressure,
  type Registry,
  answerClientError,
  answerProblems,
  boundConnections,
  boundPipelining,
  boundUnread,
  cutSlowBodies,
  measureRequests,
  problem,
  refuseWhenLate,
  requestIdPattern,
} from '@postern/service-kit'
import { type FastifyInstance, fastify } from 'fastify'
import { apiRoutes } from './api/routes.ts'
import type { Config } from './config.ts'
import type { Deps } from './deps.ts'
import { addSecurityHeaders } from './http/security-headers.ts'
import { unknownRoutes } from './http/unknown-routes.ts'
import { pageRoutes } from './pages/routes.ts'
import { unconfiguredRoutes } from './pages/unconfigured.ts'
import type { Session } from './session/content.ts'
import { sessionRoutes } from './session/routes.ts'
import { signInRoutes } from './sign-in/routes.ts'

declare module 'fastify' {
  interface FastifyRequest {
    session: Session | undefined
  }
}

export function createConsoleApp(
  config: Config,
  deps: Deps,
  { logger, metrics, pressure }: { readonly logger: Logger; readonly metrics: Registry; readonly pressure: Pressure },
): FastifyInstance {
  const app = fastify({
    logger: false,
    requestTimeout: 0,
    keepAliveTimeout: config.keepAliveMs,
    bodyLimit: 65_536,
    http: { maxHeaderSize: 16_384 },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: 4096, caseSensitive: true, ignoreTrailingSlash: false },
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && requestIdPattern.test(given) ? given : newRequestId()
    },
    clientErrorHandler: (error, socket) => answerClientError(error, socket, newRequestId()),
  })
  boundConnections(app.server, { max: config.maxSockets, metrics, logger })
  boundUnread(app.server, { maxBytes: config.maxUnreadBytes, metrics })
  boundPipelining(app, metrics)
  app.decorateRequest('session', undefined)
  addSecurityHeaders(app, config)
  refuseWhenLate(app, pressure, () => true)
  cutSlowBodies(app, config.bodyTimeoutMs)
  measureRequests(app, metrics)
  if (config.requestLog) logRequests(app, logger)
  const unknown = unknownRoutes(app, deps.pages)
  answerProblems(app, logger, false, unknown)
  const { signIn } = deps
  if (signIn === undefined) {
    unconfiguredRoutes(app, deps.pages)
    return app
  }
  sendToOrigin(app, config, logger)
  signInRoutes(app, { ...deps, ...signIn }, config)
  sessionRoutes(app, deps, config)
  apiRoutes(app, { ...deps, ...signIn }, config)
  pageRoutes(app, { pages: deps.pages, unknown, basePath: config.basePath })
  return app
}

function newRequestId(): string {
  return randomBytes(12).toString('hex')
}

/** If this cookie comes back with another host, a proxy replaces the Host header. */
const redirectedCookie = 'postern-redirected'

/** Redirects to the configured address, where the cookies are. A second redirect within five seconds is an error. */
function sendToOrigin(app: FastifyInstance, { url, basePath }: Pick<Config, 'url' | 'basePath'>, logger: Logger): void {
  const { host, protocol } = new URL(url)
  app.addHook('onRequest', async (request, reply) => {
    const path = request.raw.url ?? '/'
    const isNavigation = request.method === 'GET' && !/^\/(?:api|assets)\//.test(path) && path !== '/auth/session'
    const given = [request.headers['x-forwarded-host'], request.headers.host]
    const isOurs = given.some((header) => typeof header === 'string' && hostOf(protocol, header) === host)
    if (!isNavigation || isOurs || !/^\/(?!\/)[\x21-\x7e]*$/.test(path)) return
    if (request.headers.cookie?.split('; ').includes(`${redirectedCookie}=1`) === true) {
      logger.warn({ event: 'host_not_passed_on', received: request.headers.host?.slice(0, 255), expected: host })
      throw problem('bad_request', {
        detail: `A proxy replaces the Host header of this request. Configure the proxy to send Host or X-Forwarded-Host with ${host}.`,
      })
    }
    reply.header(
      'set-cookie',
      `${redirectedCookie}=1; Max-Age=5; Path=${basePath === '' ? '/' : basePath}; HttpOnly; SameSite=Lax`,
    )
    await reply.redirect(url + path, 302)
  })
}

function hostOf(protocol: string, header: string | undefined): string | undefined {
  return header === undefined ? undefined : URL.parse(`${protocol}//${header}`)?.host
}

function logRequests(app: FastifyInstance, logger: Logger): void {
  app.addHook('onResponse', async (request, reply) => {
    logger.info({
      event: 'request',
      request_id: request.id,
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 100) / 100,
      ...(request.session === undefined ? {} : { tenant_id: request.session.content.tenant.id }),
    })
  })
}
