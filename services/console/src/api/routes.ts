import type { Readable } from 'node:stream'
import compress from '@fastify/compress'
import { publicAnswerHeaders, receiptKeys } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import { canonicalTarget } from '@postern/signed-context'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import type { Deps, SignIn } from '../deps.ts'
import { assertCsrfToken, assertSameOrigin } from '../http/own-pages.ts'
import { findSession, signInRequired } from '../http/session-guard.ts'
import type { GatewayAnswer } from './gateway.ts'

/**
 * What the pages may say to the gateway. A list of what passes, not of what does not: cookies, credentials and whatever
 * is invented next stay here.
 */
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

type ApiDeps = Pick<Deps, 'cookies' | 'sessions' | 'gateway'> & Pick<SignIn, 'access'>

/** No limit of ours: the gateway has one for each operation. */
const bodyLimit = Number.MAX_SAFE_INTEGER

/** `/api/v1/*`, and the keys that verify receipts: to the gateway with the person's access token, and its answer back as it is. */
export function apiRoutes(parent: FastifyInstance, deps: ApiDeps, config: Pick<Config, 'origin' | 'basePath'>): void {
  void parent.register(async (app) => {
    await app.register(compress, {
      globalCompression: false,
      globalDecompression: false,
      encodings: ['br', 'gzip'],
      customTypes: compressibleTypes,
    })
    // Bodies are not read here, they flow through.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', { bodyLimit }, (_request, payload, done) => done(null, payload))
    const guarded = {
      exposeHeadRoute: false,
      bodyLimit,
      // Before the body: nothing of what is refused is read.
      onRequest: async (request: FastifyRequest) => {
        assertSameOrigin(request, config.origin)
        const session = await findSession(request, deps)
        if (session === undefined) throw signInRequired()
        assertCsrfToken(request, session)
        request.session = session
      },
      handler: async (request: FastifyRequest, reply: FastifyReply) =>
        await pass(request, reply, deps, config.basePath),
    }
    app.route({ ...guarded, method: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], url: '/api/v1/*' })
    app.route({ ...guarded, method: 'GET', url: receiptKeys.path })
  })
}

async function pass(
  request: FastifyRequest,
  reply: FastifyReply,
  deps: ApiDeps,
  basePath: string,
): Promise<FastifyReply> {
  const target = request.raw.url ?? ''
  const { session } = request
  if (session === undefined) throw signInRequired()
  if (!canonicalTarget(target).ok || !(target.startsWith('/api/v1/') || target === receiptKeys.path)) {
    throw problem('non_canonical_path', { detail: 'Send the path in its one canonical spelling.' })
  }
  const fresh = await deps.access.fresh(isByItself(request) ? session : await deps.sessions.use(session))
  if (fresh === undefined) throw signInRequired()
  const ended = new AbortController()
  reply.raw.once('close', () => ended.abort())
  let answer: GatewayAnswer
  try {
    answer = await deps.gateway.send(
      {
        method: request.method,
        target,
        headers: headersFor(request),
        body: isStream(request.body) ? request.body : undefined,
        signal: ended.signal,
      },
      fresh.content.tokens.access,
    )
  } catch (error) {
    if (ended.signal.aborted) return reply.hijack()
    throw problem('bad_gateway', { detail: 'The gateway cannot be reached, or broke off.', cause: error })
  }
  for (const [name, value] of Object.entries(answer.headers)) {
    // Ours hold on every answer: what is read with a session stays in no cache.
    if (value === undefined || name === 'cache-control' || !publicAnswerHeaders.has(name)) continue
    reply.header(name, name === 'link' || name === 'location' ? placeBelow(basePath, String(value)) : value)
  }
  reply.code(answer.status)
  if (!isCompressible(request, answer)) return await reply.send(answer.body)
  reply.compress(answer.body)
  return await reply
}

/** Puts the targets of a `Link` or `Location` below the console's path, whatever path the gateway is published at. */
function placeBelow(basePath: string, value: string): string {
  return value.replaceAll(/(^|<)[^<>?]*?(?=\/api\/v1\/)/g, `$1${basePath}`)
}

/** Not event streams: they would wait in the compressor. */
const compressibleTypes = /^application\/(?:[a-z.-]+\+)?(?:json|x-ndjson)(?:;|$)/
/** Below, the headers cost more than compression saves. */
const minCompressedBytes = 1024

/**
 * Whether an answer may be compressed. Answers to changes may not: they hold new keys, and a compressed length tells about a secret that stands
 * beside text which an attacker has chosen (BREACH). Files may not either: their digests and ranges describe the bytes as they are.
 */
function isCompressible({ method }: FastifyRequest, { status, headers }: GatewayAnswer): boolean {
  const isFile = ['content-digest', 'content-disposition', 'content-encoding', 'accept-ranges'].some(
    (name) => headers[name] !== undefined,
  )
  const length = headers['content-length']
  return method === 'GET' && status === 200 && !isFile && (length === undefined || Number(length) >= minCompressedBytes)
}

/** What a page that is left open reads again and again is nobody's use of the session, which could never end unused. A change is always somebody's. */
function isByItself({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && headers['x-by-itself'] !== undefined
}

function headersFor(request: FastifyRequest): Record<string, string> {
  const passed: Record<string, string> = { 'x-request-id': request.id, 'x-forwarded-for': forwardedFor(request) }
  for (const name of passedHeaders) {
    const value = request.headers[name]
    if (typeof value === 'string') passed[name] = value
  }
  return passed
}

/** The chain as it came, and who it came from: the gateway believes as much of it as it is told to. */
function forwardedFor(request: FastifyRequest): string {
  const before = request.headers['x-forwarded-for']
  const from = request.socket.remoteAddress ?? 'unknown'
  return typeof before === 'string' && before !== '' ? `${before}, ${from}` : from
}

function isStream(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'pipe' in body
}
