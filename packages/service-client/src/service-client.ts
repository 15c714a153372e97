import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { type Caller, type KeyRing, type TenantContext, createSigner } from '@postern/signed-context'
import { type Dispatcher, Pool } from 'undici'
import type { z } from 'zod'
import { retryOnce, idleConnections } from './connection.ts'
import { NoAnswerError, ServiceUnavailableError } from './errors.ts'
import { signHeaders } from './sign-headers.ts'

/** Where a service listens, and how another one calls it. */
export interface ServiceAddress {
  readonly url: string
  readonly ring: KeyRing
  readonly timeoutMs: number
}

export interface ServiceClientOptions {
  readonly service: string
  /** Its path precedes each target. */
  readonly baseUrl: string
  readonly keyName: string
  /** The first key signs. */
  readonly ring: KeyRing
  /** For all attempts, until the last byte of the answer. */
  readonly timeoutMs: number
  readonly maxConnections?: number
  readonly connectTimeoutMs?: number
  readonly maxAnswerBytes?: number
  readonly now?: () => number
}

export interface ServiceRequest {
  readonly method?: Dispatcher.HttpMethod
  readonly target: string
  readonly caller: Caller
  readonly assertion: string
  readonly requestId?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
  readonly isRepeatable?: boolean
}

export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  readonly json: unknown
}

export interface ServiceClient {
  /** Rejects with a NoAnswerError. */
  send(request: ServiceRequest): Promise<ServiceAnswer>
  /** For requests that change nothing. Rejects with a ServiceUnavailableError without a 200 that matches the schema. */
  ask<Schema extends z.ZodType>(schema: Schema, request: ServiceRequest): Promise<z.output<Schema>>
  /** For requests that change nothing. Rejects with a ServiceUnavailableError without a 200. */
  stream(request: ServiceRequest): Promise<Readable>
  close(): Promise<void>
  /** Cuts all connections; pending requests reject. */
  destroy(): Promise<void>
}

/** Signs each attempt (RFC 9421). Follows no redirects. */
export function createServiceClient({
  service,
  baseUrl,
  keyName,
  ring,
  timeoutMs,
  maxConnections = 16,
  connectTimeoutMs = 2_000,
  maxAnswerBytes,
  now = Date.now,
}: ServiceClientOptions): ServiceClient {
  const { origin, pathname } = new URL(baseUrl)
  const prefix = pathname.replace(/\/$/, '')
  const signer = createSigner(ring, keyName)
  const pool = new Pool(origin, {
    connections: maxConnections,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    ...idleConnections,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    ...(maxAnswerBytes === undefined ? {} : { maxResponseSize: maxAnswerBytes }),
  })

  /** Each call of the function is an attempt. */
  function prepare(request: ServiceRequest, signal?: AbortSignal): () => Promise<Dispatcher.ResponseData> {
    const { method = 'POST', caller, assertion, requestId = randomUUID() } = request
    const target = prefix + request.target
    const { content, headers } = encodeBody(method, request.body)
    const sent = { method, target, caller, assertion, requestId, headers: { ...headers, ...request.headers } }
    return async () =>
      await pool.request({
        method,
        path: target,
        headers: signHeaders(signer, sent, now()),
        body: content,
        ...(signal === undefined ? {} : { signal }),
      })
  }

  async function send(request: ServiceRequest): Promise<ServiceAnswer> {
    const { isRepeatable = false } = request
    const prepared = prepare(request, AbortSignal.timeout(request.timeoutMs ?? timeoutMs))
    const attempt = async (): Promise<ServiceAnswer> => {
      const answer = await prepared()
      const text = await answer.body.text()
      return { status: answer.statusCode, headers: joinValues(answer.headers), text, json: parseJson(text) }
    }
    try {
      return await (isRepeatable ? retryOnce(attempt) : attempt())
    } catch (error) {
      throw new NoAnswerError(error)
    }
  }

  return {
    send,
    ask: async (schema, request) => {
      try {
        const { status, json } = await send({ ...request, isRepeatable: true })
        if (status !== 200) throw new Error(`the answer to ${request.target} has status ${status}`)
        return schema.parse(json)
      } catch (error) {
        throw new ServiceUnavailableError(service, error)
      }
    },
    stream: async (request) => {
      try {
        const { statusCode, body } = await retryOnce(prepare(request))
        if (statusCode === 200) return body
        await body.dump()
        throw new Error(`the answer to ${request.target} has status ${statusCode}`)
      } catch (error) {
        throw new ServiceUnavailableError(service, error)
      }
    },
    close: async () => await pool.close(),
    destroy: async () => await pool.destroy(),
  }
}

export function serviceCaller(
  id: string,
  { context, requestId }: { readonly context: TenantContext; readonly requestId: string },
): Pick<ServiceRequest, 'caller' | 'assertion' | 'requestId'> {
  const { tenantId, assertion } = context
  return { caller: { tenantId, kind: 'service', id, label: '', scopes: [], roles: [] }, assertion, requestId }
}

interface EncodedBody {
  readonly content: Buffer | Readable | null
  readonly headers: Readonly<Record<string, string>>
}

function encodeBody(method: Dispatcher.HttpMethod, body: unknown): EncodedBody {
  if (body === undefined) {
    // undici sends this length (RFC 9110, section 8.6), and the signature must cover it.
    const hasLength = method === 'POST' || method === 'PUT' || method === 'PATCH'
    return { content: null, headers: hasLength ? { 'content-length': '0' } : {} }
  }
  if (body instanceof Readable) return { content: body, headers: {} }
  const isRaw = Buffer.isBuffer(body) || typeof body === 'string'
  const content = Buffer.from(isRaw ? body : JSON.stringify(body))
  const headers = { 'content-length': String(content.length) }
  return { content, headers: isRaw ? headers : { 'content-type': 'application/json', ...headers } }
}

function joinValues(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const joined: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) joined[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return joined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
