import type { IncomingHttpHeaders } from 'node:http'
import compress from '@fastify/compress'
import proxy, { type FastifyHttpProxyOptions } from '@fastify/http-proxy'
import { publicAnswerHeaders, receiptKeys, routeTable, tenantHeader } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import { targetRemedy } from '@postern/service-kit/access'
import { canonicalTarget } from '@postern/signed-context'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Pool } from 'undici'
import type { Config } from '../config.ts'
import type { Deps, SignIn } from '../deps.ts'
import { assertCsrfToken, assertSameOrigin } from '../http/same-origin.ts'
import { findSession, signInRequired } from '../http/session-guard.ts'
import { forwardedFor } from './forwarded-for.ts'
import { gatewayConnections } from './gateway.ts'
import { type OpenRequests, createOpenRequests } from './open-requests.ts'
import type { Session } from '../session/content.ts'

const passedHeaders = [
  'accept',
  'accept-language',
  'content-type',
  'content-length',
  'content-digest',
  'content-disposition',
  'idempotency-key',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-range',
  'prefer',
  'range',
  'traceparent',
  'tracestate',
  'tus-resumable',
  'upload-checksum',
  'upload-defer-length',
  'upload-length',
  'upload-metadata',
  'upload-offset',
] as const

type ApiDeps = Pick<Deps, 'cookies' | 'sessions'> & Pick<SignIn, 'access'>
type ApiConfig = Pick<Config, 'origin' | 'basePath' | 'gatewayUrl'>

const apiPath = '/api/v1'
const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const maxBodyBytes = Math.max(...routeTable.map((route) => route.maxBodyBytes))

export function apiRoutes(parent: FastifyInstance, deps: ApiDeps, config: ApiConfig): void {
  void parent.register(async (app) => {
    await app.register(compress, {
      globalCompression: false,
      globalDecompression: false,
      encodings: ['br', 'gzip'],
      customTypes: compressibleTypes,
    })
    // The proxy streams bodies without parsing them.
    app.removeAllContentTypeParsers()
    const openRequests = createOpenRequests(deps.sessions)
    app.addHook('onClose', async () => await openRequests.close())
    app.addHook('preHandler', async (request, reply) => {
      request.session = await authorize(request, deps, config.origin)
      if (!openRequests.enter(request, reply, request.session, !isAutomatic(request))) reply.hijack()
    })
    const gateway = new Pool(config.gatewayUrl, gatewayConnections).compose(openRequests.intercept)
    // Assigned, because the types of the proxy are those of another release of undici, whose `request` is the same.
    const options = Object.assign(proxyOptions(config, openRequests), { undici: gateway })
    await app.register(proxy, { ...options, prefix: apiPath, rewritePrefix: apiPath, routes: ['/*'], httpMethods })
    const { path } = receiptKeys
    await app.register(proxy, { ...options, prefix: path, rewritePrefix: path, routes: ['/'], httpMethods: ['GET'] })
  })
}

/** Throws unless a page of this console sent the request. */
async function authorize(request: FastifyRequest, deps: ApiDeps, origin: string): Promise<Session> {
  assertSameOrigin(request, origin)
  const session = await findSession(request, deps)
  if (session === undefined) throw signInRequired()
  assertCsrfToken(request, session)
  assertForwardable(request)
  const used = isAutomatic(request) ? session : await deps.sessions.use(session)
  const fresh = await deps.access.fresh(used, isLongUpload(request) ? longUploadMs : undefined)
  if (fresh === undefined) throw signInRequired()
  return fresh
}

/** The gateway ends a request whose token expires. The pages end an upload after 270 s. */
const longUploadMs = 300_000
const longUploadBytes = 1024 * 1024

function isLongUpload({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length'] ?? 0) > longUploadBytes || headers['transfer-encoding'] !== undefined
}

function assertForwardable({ raw, headers }: FastifyRequest): void {
  const target = raw.url ?? ''
  const [path = ''] = target.split('?', 1)
  const isKnown = target.startsWith(`${apiPath}/`) || target === receiptKeys.path
  // The proxy rejects two dots beside a slash, even within a name.
  const canonical = canonicalTarget(target)
  if (!canonical.ok) {
    const code = canonical.reason === 'too_long' ? 'uri_too_long' : 'non_canonical_path'
    throw problem(code, { detail: targetRemedy(canonical.reason) })
  }
  if (!isKnown || /\/\.\.|\.\.\//.test(path)) {
    throw problem('non_canonical_path', { detail: 'Send the path in its one canonical spelling.' })
  }
  if (Number(headers['content-length'] ?? 0) > maxBodyBytes) {
    throw problem('content_too_large', { detail: `The body may have at most ${maxBodyBytes} bytes.` })
  }
}

function proxyOptions(
  { basePath, gatewayUrl }: ApiConfig,
  { headersFor }: Pick<OpenRequests, 'headersFor'>,
): FastifyHttpProxyOptions {
  return {
    upstream: gatewayUrl,
    destroyAgent: true,
    retryMethods: [],
    internalRewriteLocationHeader: false,
    replyOptions: {
      rewriteRequestHeaders: (request, headers) => ({
        ...requestHeaders(request, headers),
        ...headersFor(request),
      }),
      rewriteHeaders: (headers) => answerHeaders(headers, basePath),
      onResponse: (request, reply, { stream }) => {
        void (isCompressible(request, reply) ? reply.compress(stream) : reply.send(stream))
      },
      onError: (reply, { error }) => {
        if (reply.raw.destroyed) reply.hijack()
        else {
          const detail = 'The gateway is not available or closed the connection. Try again in a moment.'
          void reply.send(problem('bad_gateway', { detail, cause: error }))
        }
      },
    },
  }
}

type ProxiedRequest = Pick<FastifyRequest, 'id' | 'session' | 'body' | 'headers'> & {
  readonly socket: { readonly remoteAddress?: string | undefined }
}

function requestHeaders(request: ProxiedRequest, headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { id, session, body } = request
  if (session === undefined) throw signInRequired()
  const passed: IncomingHttpHeaders = {
    authorization: `Bearer ${session.content.tokens.access}`,
    // Never another tenant than that of the session, whatever the token grants.
    [tenantHeader]: session.content.tenant.id,
    'x-request-id': id,
    'x-forwarded-for': forwardedFor(request),
  }
  for (const name of passedHeaders) {
    const value = headers[name]
    if (typeof value === 'string') passed[name] = value
  }
  if (body === undefined || body === null) delete passed['content-length']
  return passed
}

function answerHeaders(headers: IncomingHttpHeaders, basePath: string): IncomingHttpHeaders {
  const passed: IncomingHttpHeaders = {}
  for (const [name, value] of Object.entries(headers)) {
    if (name === 'cache-control' || !publicAnswerHeaders.has(name)) continue
    passed[name] = name === 'link' || name === 'location' ? prependBasePath(basePath, String(value)) : value
  }
  return passed
}

function prependBasePath(basePath: string, value: string): string {
  return value.replaceAll(/(^|<)[^<>?]*?(?=\/api\/v1\/)/g, `$1${basePath}`)
}

const compressibleTypes = /^application\/(?:[a-z.-]+\+)?(?:json|x-ndjson)(?:;|$)/
const minCompressedBytes = 1024

/**
 * Responses to changes contain new keys, whose compressed length could reveal them (BREACH). Digests and ranges of
 * files refer to the original bytes.
 */
function isCompressible(
  { method }: Pick<FastifyRequest, 'method'>,
  reply: Pick<FastifyReply, 'statusCode' | 'getHeader' | 'hasHeader'>,
): boolean {
  const isFile = ['content-digest', 'content-disposition', 'content-encoding', 'accept-ranges'].some((name) =>
    reply.hasHeader(name),
  )
  const length = reply.getHeader('content-length')
  const isLong = length === undefined || Number(length) >= minCompressedBytes
  return method === 'GET' && reply.statusCode === 200 && !isFile && isLong
}

/**
 * Whether the page sent the request without an action of the person. Such a request does not extend the session. A
 * browser repeats a stream of events for as long as its page is open.
 */
function isAutomatic({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && (headers['x-by-itself'] !== undefined || headers.accept === 'text/event-stream')
}
