import { request } from 'undici'
import { repeatableHeaders, retryWhileBusy } from './retry-while-busy.ts'

export interface GatewayTarget {
  readonly gateway: string
  readonly key: string
}

export interface GatewayRequest {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly json?: unknown
  readonly csv?: string
  readonly ifMatch?: string
  readonly expected?: readonly number[]
}

export interface GatewayAnswer {
  readonly json: unknown
  readonly etag: string
  readonly link: string
}

/** Throws for an unexpected status. */
export async function callGateway(
  { gateway, key }: GatewayTarget,
  { method, path, json, csv, ifMatch, expected = [200] }: GatewayRequest,
): Promise<GatewayAnswer> {
  const body = csv ?? (json === undefined ? undefined : JSON.stringify(json))
  const once = repeatableHeaders(method)
  const { status, headers, text } = await retryWhileBusy(
    async () => {
      const answer = await request(`${gateway}${path}`, {
        method,
        headers: {
          authorization: `ApiKey ${key}`,
          ...once,
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
