import { setTimeout as delay } from 'node:timers/promises'
import { Agent, type Dispatcher } from 'undici'
import { assertInContract } from './contract.ts'

/** A complete response. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** The parsed body if it is JSON. */
  readonly json: unknown
  /** The problem code, if any. */
  readonly code: string | undefined
}

export interface RequestOptions {
  readonly key?: string
  readonly method?: Dispatcher.HttpMethod
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON unless it is text or bytes. */
  readonly body?: unknown
}

const connections = new Agent({ connections: 64, keepAliveTimeout: 5000, headersTimeout: 60_000, bodyTimeout: 60_000 })

/** The maximum time that a gateway may be without its lease. */
const withoutLeaseMs = 60_000

/**
 * Sends a request like an integrator. Throws if the response violates the API contract. Repeats it if a gateway on a
 * busy machine has no lease.
 */
export async function send(origin: string, path: string, options: RequestOptions = {}): Promise<Answer> {
  const from = performance.now()
  for (;;) {
    const answer = await sendOnce(origin, path, options)
    if (answer.code !== 'auth_unavailable' || performance.now() - from > withoutLeaseMs) return answer
    await delay(50)
  }
}

async function sendOnce(origin: string, path: string, options: RequestOptions): Promise<Answer> {
  const { key, method = 'GET', headers = {}, body } = options
  const raw = typeof body === 'string' || Buffer.isBuffer(body) ? body : undefined
  const answer = await connections.request({
    origin,
    path,
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `ApiKey ${key}` }),
      ...(body !== undefined && raw === undefined ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    body: body === undefined ? null : (raw ?? JSON.stringify(body)),
  })
  const text = await answer.body.text()
  const json = parse(text)
  const received = { status: answer.statusCode, headers: answer.headers, text, json, code: codeOf(json) }
  assertInContract(method, path, received)
  return received
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function codeOf(json: unknown): string | undefined {
  if (typeof json !== 'object' || json === null || !('code' in json)) return undefined
  return typeof json.code === 'string' ? json.code : undefined
}
