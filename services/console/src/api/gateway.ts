import { problemUri, signInHeader, tenantHeader, whoamiSchema } from '@postern/contracts'
import { idleConnections } from '@postern/service-client'
import { Pool } from 'undici'

export interface Tenant {
  readonly id: string
  readonly name: string
}

export type WhoIs =
  | {
      readonly kind: 'person'
      readonly id: string
      readonly label: string
      /** Null if the person has several and the request named none. */
      readonly tenant: Tenant | null
      readonly tenants: readonly Tenant[]
      readonly roles: readonly string[]
    }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'unavailable'; readonly cause: unknown }

/** What the gateway logs and reports about a sign-in. */
export interface SignInRequest {
  readonly requestId: string
  /** The addresses from the browser to the console. */
  readonly forwardedFor: string
}

export interface GatewayClient {
  /** `tenantId` chooses one of several tenants. */
  whoIs(accessToken: string, options?: { readonly tenantId?: string; readonly signIn?: SignInRequest }): Promise<WhoIs>
  ping(): Promise<void>
  close(): Promise<void>
}

export const gatewayConnections = {
  // `openLimits` shares them out.
  connections: 512,
  // The proxy does not verify certificates by default.
  connect: { timeout: 2000, rejectUnauthorized: true },
  ...idleConnections,
  // The gateway answers within its own, shorter limits.
  headersTimeout: 120_000,
  bodyTimeout: 300_000,
  maxHeaderSize: 32_768,
} as const
export const whoIsWithinMs = 3000
const pingWithinMs = 1500

/** Never retries: a request is sent once or fails. */
export function openGateway(url: string): GatewayClient {
  const pool = new Pool(url, gatewayConnections)
  return {
    whoIs: async (accessToken, { tenantId, signIn } = {}) => {
      try {
        const answer = await pool.request({
          method: 'GET',
          path: '/api/v1/whoami',
          headers: {
            accept: 'application/json',
            authorization: `Bearer ${accessToken}`,
            ...(signIn === undefined
              ? {}
              : {
                  'x-request-id': signIn.requestId,
                  'x-forwarded-for': signIn.forwardedFor,
                  [signInHeader]: 'true',
                }),
            ...(tenantId === undefined ? {} : { [tenantHeader]: tenantId }),
          },
          signal: AbortSignal.timeout(whoIsWithinMs),
        })
        const json: unknown = await answer.body.json()
        if (answer.statusCode === 200) {
          const { kind, ...person } = whoamiSchema.parse(json)
          return kind === 'user' ? { ...person, kind: 'person' } : { kind: 'refused', code: 'no_person' }
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
