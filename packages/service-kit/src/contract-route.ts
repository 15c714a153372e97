import { isDeepStrictEqual } from 'node:util'
import {
  type Method,
  type ProblemCode,
  type Route,
  type RouteInputs,
  headersOnEveryAnswer,
  isRepeatable,
  itemSchemaOf,
  linesMediaType,
  requestedMediaType,
  pageMediaType,
  workbookMediaType,
  mediaTypesOf,
} from '@postern/contracts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { negotiate } from './accept.ts'
import { assertDigest } from './content-digest.ts'
import { matchesEtag } from './etag.ts'
import type { CallerKind, Guard } from './guard.ts'
import {
  type IdempotencyStore,
  type Attempt,
  type Keeping,
  type Repetition,
  beginAttempt,
  hashBody,
  isRepetition,
  nullKeeping,
} from './idempotency.ts'
import { inputErrors } from './input-errors.ts'
import { parseJsonLines } from './json-body.ts'
import { JsonText, JsonTexts, contentOf, valueOf } from './json-text.ts'
import type { Logger } from './logger.ts'
import { normalizeBody, normalizeParameters } from './normalize-text.ts'
import { problem } from './problem.ts'
import { describeMediaTypes } from './problem-handler.ts'
import { ReadBody, readAhead } from './read-ahead.ts'
import { requestedExpansions, requestedFields, selectFields } from './select-fields.ts'
import { type Current, parseChange } from './sent-back.ts'
import { StreamedAnswer } from './streamed-answer.ts'
import { type RequestContext, streamedAnswerBytes } from './tenant-shares.ts'

export type App = FastifyInstance

export interface AnswerControl {
  /** Default: the lowest 2xx of the contract. */
  status(code: number): void
  header(name: string, value: string): void
  /** `value` includes the quotes. A GET with a matching `If-None-Match` gets 304. */
  etag(value: string): void
}

export interface RequestInfo {
  readonly mediaType: string
  readonly context: RequestContext
  readonly requestId: string
  readonly answer: AnswerControl
  readonly raw: FastifyRequest
  readonly log: Logger
}

export type ContractInput<R extends Route> = RouteInputs<R> & RequestInfo & Keeping

export type AnswerBody<R extends Route> = [Bodies<R>] extends [never] ? undefined : Bodies<R>
type Bodies<R extends Route> = {
  [S in StatusWithBody]: R['answers'][S] extends { readonly schema: infer Z extends z.ZodType } ? z.output<Z> : never
}[StatusWithBody]
type StatusWithBody = 200 | 201 | 202

interface Kit {
  readonly logger: Logger
  readonly checkAnswers: boolean
}

const kits = new WeakMap<App, Kit>()

const memories = new WeakMap<App, IdempotencyStore>()

/** Call it before adding POST routes. */
export function enableIdempotency(app: App, memory: IdempotencyStore): void {
  memories.set(app, memory)
}

export function setKit(app: App, kit: Kit): void {
  kits.set(app, kit)
}

/** Invalid parameters and JSON get 400, invalid resources 422. */
export function contractRoute<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<AnswerBody<R> | StreamedAnswer>,
): void {
  if (itemSchemaOf(route) !== undefined) throw new Error(`${route.id} is a list: it is registered with contractList`)
  registerContract(app, route, handler)
}

/**
 * A PATCH that also takes the whole resource as it was read. Members that equal the stored ones are no change, nor are
 * those in `computed`, which change by themselves. `read` returns undefined if there is no resource.
 */
export function patchRoute<const R extends Route>(
  app: App,
  route: R,
  current: {
    readonly computed?: readonly string[]
    readonly read: (input: Omit<ContractInput<R>, 'body' | keyof Keeping>) => Promise<Current | undefined>
  },
  handler: (input: ContractInput<R>) => Promise<AnswerBody<R>>,
): void {
  registerContract(app, route, handler, { current: current as Registration['current'] })
}

/** `complete` runs after the commit with the handler's result, or a stored one. */
export function completedRoute<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<unknown>,
  complete: (written: unknown, request: Pick<RequestInfo, 'context'>) => Promise<AnswerBody<R>>,
): void {
  registerContract(app, route, handler, { complete })
}

export function registerContract<const R extends Route>(
  app: App,
  route: R,
  handler: (input: ContractInput<R>) => Promise<unknown>,
  special: Pick<Registration, 'complete' | 'current'> = {},
): void {
  const { upstream } = route
  const memory = isRepeatable(route) ? memories.get(app) : undefined
  if (isRepeatable(route) && memory === undefined) {
    throw new Error(`${route.id} needs enableIdempotency: every POST with credentials can be repeated`)
  }
  const headers = Object.keys(route.requestHeaders ?? {}).map((name) => name.toLowerCase())
  register(app, {
    ...(memory === undefined ? {} : { repeatable: { memory, routeId: route.id, headers } }),
    method: route.method,
    path: route.path,
    guard: { signedBy: isForOperators(route) ? [upstream, 'operator'] : [upstream], access: route.access },
    params: route.params,
    query: route.query ?? z.strictObject({}),
    body: route.body,
    mediaTypes: route.bodyMediaTypes ?? ['application/json'],
    isStreamed: route.body === undefined && route.bodyMediaTypes !== undefined,
    maxBodyBytes: route.maxBodyBytes,
    success: lowestSuccess(route),
    contract: route,
    ...special,
    handler: handler as Registration['handler'],
  })
}

function isForOperators({ upstream, access }: Route): boolean {
  return upstream === 'keys' || (upstream === 'sync' && access.kind === 'person')
}

export interface InternalRoute {
  readonly method: Method
  readonly path: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly maxBodyBytes?: number
  readonly signedBy: readonly string[]
  readonly callers: readonly CallerKind[]
  readonly isOurJson?: boolean
}

/** The gateway does not forward to it. */
export function internalRoute<const R extends InternalRoute>(
  app: App,
  route: R,
  handler: (
    input: {
      readonly params: R['params'] extends z.ZodType ? z.output<R['params']> : Record<string, never>
      readonly query: R['query'] extends z.ZodType ? z.output<R['query']> : Record<string, never>
      readonly body: R['body'] extends z.ZodType ? z.output<R['body']> : undefined
    } & RequestInfo,
  ) => Promise<unknown>,
): void {
  register(app, {
    method: route.method,
    path: route.path,
    guard: { signedBy: route.signedBy, access: { kind: 'internal', callers: route.callers } },
    isOurJson: route.isOurJson ?? false,
    params: route.params,
    query: route.query ?? z.strictObject({}),
    body: route.body,
    mediaTypes: ['application/json'],
    isStreamed: false,
    maxBodyBytes: route.maxBodyBytes ?? 1024 * 1024,
    success: 200,
    handler: handler as Registration['handler'],
  })
}

interface Inputs {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

interface Registration {
  readonly method: Method
  readonly path: string
  readonly guard: Guard
  readonly isOurJson?: boolean
  readonly params: z.ZodType | undefined
  readonly query: z.ZodType
  readonly body: z.ZodType | undefined
  readonly mediaTypes: readonly string[]
  readonly isStreamed: boolean
  readonly maxBodyBytes: number
  readonly success: number
  readonly contract?: Route
  readonly handler: (input: Inputs & RequestInfo & Keeping) => Promise<unknown>
  readonly complete?: ((written: unknown, request: Pick<RequestInfo, 'context'>) => Promise<unknown>) | undefined
  readonly current?:
    | {
        readonly computed?: readonly string[]
        readonly read: (input: Omit<Inputs, 'body'> & RequestInfo) => Promise<Current | undefined>
      }
    | undefined
  readonly repeatable?: {
    readonly memory: IdempotencyStore
    readonly routeId: string
    readonly headers: readonly string[]
  }
}

function register(app: App, registration: Registration): void {
  const kit = kits.get(app)
  if (kit === undefined) throw new Error('routes can be registered on an app made by createApp only')
  const { body: schema, isOurJson = false, maxBodyBytes } = registration
  if (isOurJson && schema !== undefined) {
    app.register(async (scope) => {
      readAhead(scope, schema, maxBodyBytes)
      addRoute(scope, registration, kit)
    })
    return
  }
  const { isStreamed, mediaTypes } = registration
  if (!isStreamed && !mediaTypes.includes(linesMediaType)) {
    addRoute(app, registration, kit)
    return
  }
  app.register(async (scope) => {
    if (isStreamed) {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    } else {
      const options = { parseAs: 'buffer' } as const
      scope.addContentTypeParser(linesMediaType, options, async ({ headers }: FastifyRequest, body: Buffer) => {
        assertDigest(headers['content-digest'], body)
        return parseJsonLines(body)
      })
    }
    addRoute(scope, registration, kit)
  })
}

function addRoute(app: App, registration: Registration, kit: Kit): void {
  const { method, path, guard, maxBodyBytes, success, repeatable, contract, complete } = registration
  const offered = contract === undefined ? [] : mediaTypesOf(contract)
  const always = contract === undefined ? [] : headersOnEveryAnswer(contract)
  app.route({
    method,
    url: path,
    config: { guard, ...(contract === undefined ? {} : { contract }) },
    ...(maxBodyBytes > 0 ? { bodyLimit: maxBodyBytes } : {}),
    ...(repeatable === undefined ? {} : { preParsing: hashBody }),
    handler: async (request, reply) => {
      const context = request.tenantContext
      if (context === undefined) throw problem('unsigned_request')
      reply.header('x-request-id', request.id)
      for (const [name, value] of always) reply.header(name, value)
      reply.code(success)
      const answer = controlOf(reply)
      const mediaType = chooseMediaType(request, reply, offered)
      const info = { mediaType, context, requestId: request.id, answer, raw: request, log: kit.logger }
      const { unchanged, ...inputs } = await parseInputs(request, registration, info)
      if (isLargeAnswer(mediaType, inputs.query)) context.share?.enterLargeAnswer()
      const begun =
        repeatable === undefined
          ? undefined
          : await beginAttempt(
              { request, reply, context, log: kit.logger },
              { ...repeatable, isStreamed: registration.isStreamed },
            )
      if (isRepetition(begun)) {
        const { body: kept } = begun
        const isComplete = complete === undefined || kept === null
        const completed = isComplete ? kept : JSON.stringify(await complete(JSON.parse(kept), { context }))
        return await repeat(reply, { ...begun, body: completed }, mediaType)
      }
      const { keep, storeRefusal } = begun ?? nullKeeping
      const written = unchanged ?? (await carryOut(registration, { ...inputs, ...info, keep, storeRefusal }, begun))
      const body = complete === undefined ? written : await complete(written, { context })
      if (body instanceof StreamedAnswer) {
        reserveUntilSent(context, body)
        return await reply.type(body.mediaType).send(body.content)
      }
      if (isUnchanged(request, reply)) reply.code(304)
      if (kit.checkAnswers && contract !== undefined) assertInContract(contract, reply.statusCode, valueOf(body))
      if (reply.statusCode === 304) return await reply.send()
      if (body === undefined) return await reply.send()
      const type = mediaType === '' ? 'application/json' : mediaType
      const fields = requestedFields(inputs.query)
      const page = fields === undefined ? body : selectFields(valueOf(body), fields)
      const sent = type === pageMediaType ? withEnvelope(page, reply) : page
      return await reply.type(`${type}; charset=utf-8`).send(contentOf(sent))
    },
  })
}

/** The page, and what its headers say. `next` is relative, so that it is right behind a path prefix. */
function withEnvelope(page: unknown, reply: FastifyReply): JsonText {
  const header = (name: string): string | undefined => reply.getHeader(name)?.toString()
  const search = /<[^<>?]*(\?[^<>]*)>/.exec(header('link') ?? '')?.[1]
  const total = header('x-total-count')
  const since = header('postern-next-since')
  const rest = {
    next: search ?? null,
    total: total === undefined ? null : Number(total),
    ...(since === undefined
      ? { next_cursor: search === undefined ? null : new URLSearchParams(search).get('cursor') }
      : { next_since: since }),
    next_updated_since: header('postern-next-updated-since'),
  }
  const items = page instanceof JsonTexts ? page.text : JSON.stringify(page)
  return new JsonText(`{"items":${items},${JSON.stringify(rest).slice(1)}`)
}

function isLargeAnswer(mediaType: string, query: unknown): boolean {
  const isWhole = [linesMediaType, 'text/csv', workbookMediaType].includes(mediaType)
  return isWhole || requestedExpansions(query).length > 0
}

function reserveUntilSent({ share }: RequestContext, { content }: StreamedAnswer): void {
  try {
    share?.reserveBytes(streamedAnswerBytes)
  } catch (error) {
    content.destroy()
    throw error
  }
}

/** Empty if the answer has no body. */
function chooseMediaType(request: FastifyRequest, reply: FastifyReply, offered: readonly string[]): string {
  if (offered.length === 0) return ''
  if (offered.length > 1) reply.header('vary', 'accept')
  const asked = requestedMediaType(request.query)
  const mediaType = asked !== undefined && offered.includes(asked) ? asked : negotiate(request.headers.accept, offered)
  if (mediaType === undefined)
    throw problem('not_acceptable', { detail: `This resource is available as ${offered.join(', ')}.` })
  return mediaType
}

async function carryOut(
  { handler }: Registration,
  input: Inputs & RequestInfo & Keeping,
  attempt: Attempt | undefined,
): Promise<unknown> {
  if (attempt === undefined) return await handler(input)
  try {
    const body = await handler(input)
    await attempt.finish(body)
    return body
  } catch (error) {
    await attempt.abandon()
    throw error
  }
}

async function repeat(
  reply: FastifyReply,
  { status, headers, body }: Repetition,
  mediaType: string,
): Promise<FastifyReply> {
  reply.code(status).headers({ ...headers, 'idempotent-replayed': 'true' })
  if (body === null) return await reply.send()
  return await reply.type(`${mediaType === '' ? 'application/json' : mediaType}; charset=utf-8`).send(body)
}

/** Texts between services may name stored, older forms, so they are not normalized. */
function isFromClient({ contract, guard }: Registration): boolean {
  const { access } = guard
  return contract !== undefined || (access.kind === 'internal' && access.callers.every((kind) => kind === 'operator'))
}

async function parseInputs(
  request: FastifyRequest,
  registration: Registration,
  info: RequestInfo,
): Promise<Inputs & { readonly unchanged?: object }> {
  const [params, query] = isFromClient(registration)
    ? [normalizeParameters(request.params), normalizeParameters(request.query)]
    : [request.params, request.query]
  const parameters = {
    params: parse(registration.params, params, 'not_found', 'parameter'),
    query: parse(registration.query, query, 'bad_request', 'parameter'),
  }
  const { body: schema, contract, current } = registration
  const value = readBody(request, registration)
  if (value instanceof ReadBody) return { ...parameters, body: value.value }
  if (schema === undefined) return { ...parameters, body: undefined }
  const path = contract?.path
  if (current !== undefined && !schema.safeParse(value).success) {
    const stored = await current.read({ ...parameters, ...info })
    if (stored !== undefined) {
      return { ...parameters, ...parseChange({ schema, value, path }, stored, current.computed ?? []) }
    }
  }
  return { ...parameters, body: parse(schema, value, 'invalid_content', 'body', path) }
}

const noBytes = Buffer.alloc(0)

function readBody(request: FastifyRequest, registration: Registration): unknown {
  const { body, mediaTypes, isStreamed, contract } = registration
  if (body === undefined && !(isStreamed && !mediaTypes.includes('*/*'))) return undefined
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (request.body !== undefined && (type === undefined || !mediaTypes.includes(type))) {
    throw problem('unsupported_media_type', { detail: describeMediaTypes(mediaTypes) })
  }
  if (request.body instanceof ReadBody) return request.body
  if (body === undefined) return undefined
  if (request.body === undefined) assertDigest(request.headers['content-digest'], noBytes)
  return isFromClient(registration) ? normalizeBody(request.body, contract?.exactMembers) : request.body
}

function parse(
  schema: z.ZodType | undefined,
  value: unknown,
  code: ProblemCode,
  where: 'body' | 'parameter',
  path?: string,
): unknown {
  if (schema === undefined) return {}
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  // An invalid id gets the same 404 as an unknown one.
  if (code === 'not_found') throw problem(code)
  throw problem(code, { errors: inputErrors(parsed.error, where, { value, schema, path }) })
}

function controlOf(reply: FastifyReply): AnswerControl {
  return {
    status: (code) => void reply.code(code),
    header: (name, value) => void reply.header(name, value),
    etag: (value) => void reply.header('etag', value),
  }
}

function isUnchanged(request: FastifyRequest, reply: FastifyReply): boolean {
  const etag = reply.getHeader('etag')
  if (typeof etag !== 'string' || (request.method !== 'GET' && request.method !== 'HEAD')) return false
  const given = request.headers['if-none-match']
  return given !== undefined && matchesEtag(given, etag)
}

function lowestSuccess(route: Route): number {
  const codes = Object.keys(route.answers).map(Number)
  return Math.min(...codes.filter((code) => code >= 200 && code < 300))
}

export function assertItemInContract(app: App, route: Route, item: unknown): void {
  const schema = itemSchemaOf(route)
  if (schema === undefined || kits.get(app)?.checkAnswers !== true) return
  assertFits(route, schema, item)
}

function assertInContract(contract: Route, status: number, body: unknown): void {
  const answer = contract.answers[status]
  if (answer === undefined) throw new Error(`${contract.id} answers ${status}, which its contract does not have`)
  if (answer.schema === undefined || body === undefined) return
  assertFits(contract, answer.schema, body)
}

function assertFits(contract: Route, schema: z.ZodType, body: unknown): void {
  const sent: unknown = JSON.parse(JSON.stringify(body))
  if (!isDeepStrictEqual(schema.parse(sent), sent)) {
    throw new Error(`${contract.id} answers with members that its contract does not have`)
  }
}
