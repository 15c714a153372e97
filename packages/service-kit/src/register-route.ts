import {
  type Method,
  headersOnEveryAnswer,
  linesMediaType,
  mediaTypesOf,
  pageMediaType,
  requestedMediaType,
  workbookMediaType,
} from '@postern/contracts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { negotiate } from './accept.ts'
import { assertInContract } from './check-answers.ts'
import { assertDigest } from './content-digest.ts'
import { matchesEtag } from './etag.ts'
import {
  type Attempt,
  type IdempotencyStore,
  type AnswerKeeper,
  type Repetition,
  beginAttempt,
  hashBody,
  isRepetition,
  noAnswerKeeper,
} from './idempotency.ts'
import { parseJsonLines, parseOurJson } from './json-body.ts'
import { contentOf, valueOf } from './json-text.ts'
import type { Logger } from './logger.ts'
import { withEnvelope } from './page-envelope.ts'
import { problem } from './problem.ts'
import type { AnswerControl, RequestInfo } from './request-info.ts'
import { type InputRules, type Inputs, parseInputs } from './route-inputs.ts'
import { requestedExpansions, requestedFields, selectFields } from './select-fields.ts'
import { StreamedAnswer } from './streamed-answer.ts'
import { type RequestContext, streamedAnswerBytes } from './tenant-shares.ts'

export type App = FastifyInstance

declare module 'fastify' {
  interface FastifyInstance {
    /** Of apps made by createApp. */
    readonly logger?: Logger
    /** Whether answers are compared with their contract. */
    readonly checksAnswers?: boolean
  }
}

export interface Registration extends InputRules {
  readonly method: Method
  readonly path: string
  /** Whether the JSON comes from Postern, and need not be scanned for what I-JSON forbids. */
  readonly isOurJson?: boolean
  readonly maxBodyBytes: number
  readonly success: number
  readonly handler: (input: Inputs & RequestInfo & AnswerKeeper) => Promise<unknown>
  readonly complete?: ((written: unknown, request: Pick<RequestInfo, 'context'>) => Promise<unknown>) | undefined
  readonly repeatable?: {
    readonly store: IdempotencyStore
    readonly routeId: string
    readonly headers: readonly string[]
  }
}

/** Adds a route that checks its caller and inputs, repeats stored answers, and encodes new ones. */
export function registerRoute(app: App, registration: Registration): void {
  const { isOurJson = false, isStreamed, mediaTypes } = registration
  if (!isOurJson && !isStreamed && !mediaTypes.includes(linesMediaType)) {
    addRoute(app, registration)
    return
  }
  const whole = { parseAs: 'buffer' } as const
  app.register(async (scope) => {
    if (isOurJson) {
      scope.removeContentTypeParser('application/json')
      scope.addContentTypeParser('application/json', whole, async (_request: FastifyRequest, body: Buffer) =>
        parseOurJson(body),
      )
    } else if (isStreamed) {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    } else {
      scope.addContentTypeParser(linesMediaType, whole, async ({ headers }: FastifyRequest, body: Buffer) => {
        assertDigest(headers['content-digest'], body)
        return parseJsonLines(body)
      })
    }
    addRoute(scope, registration)
  })
}

function addRoute(app: App, registration: Registration): void {
  const { method, path, guard, maxBodyBytes, success, repeatable, contract, complete } = registration
  const { logger, checksAnswers } = app
  if (logger === undefined) throw new Error('register routes only on an app made by createApp')
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
      const info = { mediaType, context, requestId: request.id, answer, raw: request, log: logger }
      const { unchanged, ...inputs } = await parseInputs(request, registration, info)
      if (isLargeAnswer(mediaType, inputs.query)) context.share?.enterLargeAnswer()
      const begun =
        repeatable === undefined
          ? undefined
          : await beginAttempt(
              { request, reply, context, log: logger },
              { ...repeatable, isStreamed: registration.isStreamed },
            )
      if (isRepetition(begun)) {
        const { body: kept } = begun
        const isComplete = complete === undefined || kept === null
        const completed = isComplete ? kept : JSON.stringify(await complete(JSON.parse(kept), { context }))
        return await repeat(reply, { ...begun, body: completed }, mediaType)
      }
      const { keep, storeRefusal } = begun ?? noAnswerKeeper
      const written = unchanged ?? (await runHandler(registration, { ...inputs, ...info, keep, storeRefusal }, begun))
      const body = complete === undefined ? written : await complete(written, { context })
      if (body instanceof StreamedAnswer) {
        reserveUntilSent(context, body)
        return await reply.type(body.mediaType).send(body.content)
      }
      if (isUnchanged(request, reply)) reply.code(304)
      if (checksAnswers === true && contract !== undefined) assertInContract(contract, reply.statusCode, valueOf(body))
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

async function runHandler(
  { handler }: Registration,
  input: Inputs & RequestInfo & AnswerKeeper,
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
