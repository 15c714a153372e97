import type { Readable } from 'node:stream'
import { problemUri, whoamiSchema } from '@postern/contracts'
import { idleConnections } from '@postern/service-kit'
import { Pool } from 'undici'

/** A request of the browser's, as the gateway is to get it. */
export interface GatewayRequest {
  readonly method: string
  /** Path and query, byte for byte as they came. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readable | undefined
  readonly signal: AbortSignal
}

export interface GatewayAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
}

/** Whom the gateway takes the holder of a token for. */
export type WhoIs =
  | {
      readonly kind: 'person'
      readonly id: string
      readonly label: string
      readonly tenant: { readonly id: string; readonly name: string }
      readonly roles: readonly string[]
    }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'unavailable'; readonly cause: unknown }

export interface GatewayClient {
  send(request: GatewayRequest, accessToken: string): Promise<GatewayAnswer>
  whoIs(accessToken: string): Promise<WhoIs>
  /** Rejects when nothing answers there. */
  ping(): Promise<void>
  close(): Promise<void>
}

const connectTimeoutMs = 2000
const maxConnections = 128
/** The gateway answers a request within its own, shorter limits. */
const answerWithinMs = 120_000
const pauseWithinMs = 300_000
const whoIsWithinMs = 3000
const pingWithinMs = 1500

/** Opens connections to the gateway. No retry anywhere: a request is sent once or fails. */
export function openGateway(url: string): GatewayClient {
  const pool = new Pool(url, {
    connections: maxConnections,
    connect: { timeout: connectTimeoutMs },
    ...idleConnections,
    headersTimeout: answerWithinMs,
    bodyTimeout: pauseWithinMs,
    maxHeaderSize: 32_768,
  })
  return {
    send: async ({ method, target, headers, body, signal }, accessToken) => {
      const answer = await pool.request({
        method,
        path: target,
        headers: { ...headers, authorization: `Bearer ${accessToken}` },
        body: body ?? null,
        signal,
      })
      return { status: answer.statusCode, headers: answer.headers, body: answer.body }
    },
    whoIs: async (accessToken) => {
      try {
        const answer = await pool.request({
          method: 'GET',
          path: '/api/v1/whoami',
          headers: { accept: 'application/json', authorization: `Bearer ${accessToken}` },
          signal: AbortSignal.timeout(whoIsWithinMs),
        })
        const json: unknown = await answer.body.json()
        if (answer.statusCode === 200) {
          const { kind, id, label, tenant, roles } = whoamiSchema.parse(json)
          return kind === 'user' ? { kind: 'person', id, label, tenant, roles } : { kind: 'refused', code: 'no_person' }
        }
        if (answer.statusCode === 401 || answer.statusCode === 403) return { kind: 'refused', code: codeOf(json) }
        return { kind: 'unavailable', cause: new Error(`the gateway answered ${answer.statusCode}`) }
      } catch (error) {
        return { kind: 'unavailable', cause: error }
      }
    },
    ping: async () => {
      const signal = AbortSignal.timeout(pingWithinMs)
      const answer = await pool.request({ method: 'GET', path: problemUri('not_found'), signal })
      await answer.body.dump()
    },
    close: async () => await pool.destroy(),
  }
}

function codeOf(json: unknown): string {
  if (typeof json !== 'object' || json === null || !('code' in json)) return 'unknown'
  return typeof json.code === 'string' ? json.code : 'unknown'
}
