import { createHash } from 'node:crypto'
import { Transform, pipeline } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { TenantContext } from '@postern/signed-context'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type BodyHash, boundaryOf, createBodyHash } from './body-hash.ts'
import type { Logger } from './logger.ts'
import { bodyError } from './input-errors.ts'
import { problem } from './problem.ts'

export interface ChangeTransaction {
  execute(statement: {
    readonly text: string
    readonly values: readonly unknown[]
    readonly name?: string
  }): Promise<number>
}

interface Claim {
  readonly slot: Buffer
  readonly id: string
}

export interface IdempotencyStore {
  claim(
    tenant: { readonly assertion: string },
    request: { readonly slot: Buffer; readonly fingerprint: Buffer },
  ): Promise<
    | { readonly kind: 'claimed'; readonly claim: Claim }
    | { readonly kind: 'in-flight' }
    | { readonly kind: 'answered'; readonly answer: string }
    | { readonly kind: 'other' }
  >
  keep(tx: ChangeTransaction, claim: Claim, answer: string): Promise<boolean>
  storeSeparately(tenant: { readonly assertion: string }, claim: Claim, answer: string): Promise<boolean>
  release(tenant: { readonly assertion: string }, claim: Claim): Promise<void>
}

/** Does nothing without an Idempotency-Key. */
export interface AnswerKeeper {
  /**
   * Stores the answer in the transaction of the change, and returns the body. Without a call, the answer is stored
   * after the handler, which is only correct for repeatable changes.
   */
  keep<T>(tx: ChangeTransaction, body: T): Promise<T>
  /** Replaces an answer with a secret: a repetition gets 409 with this detail. */
  storeRefusal(tx: ChangeTransaction, detail: string): Promise<void>
}

export interface Attempt extends AnswerKeeper {
  finish(body: unknown): Promise<void>
  abandon(): Promise<void>
}

export interface Repetition {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

type StoredAnswer = (Repetition & { readonly digest: string }) | { readonly refusal: string; readonly digest: string }

const idempotencyHeader = 'idempotency-key'

const keptHeaders = [
  'cache-control',
  'etag',
  'location',
  'tus-extension',
  'tus-max-size',
  'tus-resumable',
  'tus-version',
  'upload-expires',
] as const

const keyPattern = /^[\x21-\x7e]{1,255}$/

declare module 'fastify' {
  interface FastifyRequest {
    bodyHash: BodyHash | undefined
  }
}

export async function hashBody(
  request: FastifyRequest,
  _reply: FastifyReply,
  payload: NodeJS.ReadableStream,
): Promise<NodeJS.ReadableStream> {
  if (request.headers[idempotencyHeader] === undefined) return payload
  const hash = createBodyHash(boundaryOf(request.headers['content-type']))
  request.bodyHash = hash
  const tap = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  pipeline(payload, tap, () => undefined)
  return tap
}

/** Undefined without an Idempotency-Key. Rejects a request in progress, and another request with the same key. */
export async function beginAttempt(
  {
    request,
    reply,
    context,
    log,
  }: {
    readonly request: FastifyRequest
    readonly reply: FastifyReply
    readonly context: TenantContext
    readonly log: Logger
  },
  {
    store,
    routeId,
    headers,
    isStreamed,
  }: {
    readonly store: IdempotencyStore
    readonly routeId: string
    readonly headers: readonly string[]
    readonly isStreamed: boolean
  },
): Promise<Attempt | Repetition | undefined> {
  const key = request.headers[idempotencyHeader]
  if (key === undefined) return undefined
  if (typeof key !== 'string' || !keyPattern.test(key)) {
    throw problem('bad_request', {
      errors: [
        {
          parameter: 'Idempotency-Key',
          code: 'invalid',
          detail: 'must be 1 to 255 visible ASCII characters without spaces',
        },
      ],
    })
  }
  const outcome = await store.claim(context, {
    slot: hashOf([context.kind, context.id, routeId, key]),
    fingerprint: hashOf([
      request.method,
      request.raw.url,
      typeOf(request.headers['content-type']),
      request.headers['content-digest'] ?? null,
      // A repetition after the key was narrowed is a different request.
      context.scopes.toSorted(),
      context.roles.toSorted(),
      isStreamed ? null : digestOf(request),
      ...headers.map((name) => request.headers[name] ?? null),
    ]),
  })
  switch (outcome.kind) {
    case 'in-flight':
      throw inProgress()
    case 'other':
      throw reusedKeyProblem()
    case 'answered': {
      const kept: StoredAnswer = JSON.parse(outcome.answer)
      if (isStreamed) await readToEnd(request.body)
      if (kept.digest !== digestOf(request)) throw reusedKeyProblem()
      if ('refusal' in kept) throw problem('conflict', { detail: kept.refusal })
      return kept
    }
    case 'claimed':
      return attemptOf({ store, claim: outcome.claim, request, reply, context, log })
    default:
      return outcome satisfies never
  }
}

export function isRepetition(begun: Attempt | Repetition | undefined): begun is Repetition {
  return begun !== undefined && 'status' in begun
}

export const noAnswerKeeper: AnswerKeeper = {
  keep: async (_tx, body) => body,
  storeRefusal: async () => undefined,
}

function attemptOf({
  store,
  claim,
  request,
  reply,
  context,
  log,
}: {
  readonly store: IdempotencyStore
  readonly claim: Claim
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly context: TenantContext
  readonly log: Logger
}): Attempt {
  let isKept = false
  const answerOf = (body: unknown): string => {
    const headers: Record<string, string> = {}
    for (const name of keptHeaders) {
      const value = reply.getHeader(name)
      if (typeof value === 'string') headers[name] = value
    }
    const kept: StoredAnswer = {
      status: reply.statusCode,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      digest: digestOf(request),
    }
    return JSON.stringify(kept)
  }
  const storeText = async (tx: ChangeTransaction, text: string): Promise<void> => {
    // Another request owns the claim now, so the change is rolled back.
    if (!(await store.keep(tx, claim, text))) throw inProgress()
    isKept = true
  }
  return {
    keep: async (tx, body) => {
      await storeText(tx, answerOf(body))
      return body
    },
    storeRefusal: async (tx, refusal) => await storeText(tx, JSON.stringify({ refusal, digest: digestOf(request) })),
    finish: async (body) => {
      if (isKept) return
      try {
        if (!(await store.storeSeparately(context, claim, answerOf(body)))) {
          log.warn({ event: 'answer_not_kept', request_id: request.id, reason: 'taken over' })
        }
      } catch (error) {
        log.warn({ event: 'answer_not_kept', request_id: request.id, err: error })
      }
    },
    abandon: async () => {
      try {
        await store.release(context, claim)
      } catch (error) {
        log.warn({ event: 'claim_not_released', request_id: request.id, err: error })
      }
    },
  }
}

function inProgress(): Error {
  return problem('request_in_progress', {
    detail: 'The first attempt has no answer yet. Send the same request again in a moment.',
    retryAfterSeconds: 1,
  })
}

function reusedKeyProblem(): Error {
  return problem('idempotency_key_reused', {
    detail: 'Another request was sent with this Idempotency-Key. Choose a new key for each request.',
    errors: [{ parameter: 'Idempotency-Key', code: 'reused', detail: 'must differ for each request' }],
  })
}

function hashOf(parts: readonly unknown[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest()
}

function digestOf({ bodyHash }: FastifyRequest): string {
  return (bodyHash ?? createBodyHash(undefined)).digest()
}

function typeOf(contentType: string | undefined): string | null {
  if (contentType === undefined) return null
  const boundary = boundaryOf(contentType)
  return boundary === undefined ? contentType : 'multipart/form-data'
}

async function readToEnd(body: unknown): Promise<void> {
  if (!(body instanceof Transform)) return
  try {
    await finished(body.resume())
  } catch (cause) {
    throw problem('bad_request', {
      detail: 'The body is incomplete. Send the request again.',
      errors: [bodyError('broke off')],
      cause,
    })
  }
}
