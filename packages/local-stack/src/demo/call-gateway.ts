import { request } from 'undici'
import { retryWhileBusy } from './retry-while-busy.ts'

/** The gateway with a key that can push and read. */
export interface GatewayTarget {
  readonly gateway: string
  readonly key: string
}

export interface GatewayRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  /** Sent as JSON. */
  readonly json?: unknown
  readonly csv?: string
  readonly ifMatch?: string
  /** Default: only 200. */
  readonly expected?: readonly number[]
}

export interface GatewayAnswer {
  readonly json: unknown
  readonly etag: string
  readonly link: string
}

/** Calls the gateway and retries while it is busy. Throws if the status is not an expected one. */
export async function callGateway(
  { gateway, key }: GatewayTarget,
  { method, path, json, csv, ifMatch, expected = [200] }: GatewayRequest,
): Promise<GatewayAnswer> {
  const body = csv ?? (json === undefined ? undefined : JSON.stringify(json))
  const { status, headers, text } = await retryWhileBusy(
    async () => {
      const answer = await request(`${gateway}${path}`, {
        method,
        headers: {
          authorization: `ApiKey ${key}`,
          ...(body === undefined ? {} : { 'content-type': csv === undefined ? 'application/json' : 'text/csv' }),
          ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
        },
        ...(body === undefined ? {} : { body }),
      })
      return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
    },
    (answer) => answer.status,
  )
  if (!expected.includes(status)) {
    throw new Error(`${method} ${path.split('?', 1)[0]} was answered with ${status}: ${text.slice(0, 500)}`)
  }
  return { json: JSON.parse(text), etag: String(headers['etag'] ?? ''), link: String(headers['link'] ?? '') }
}
