import { hostname } from 'node:os'
import type { Upstream } from '@postern/contracts'
import { maxGatewayName } from '@postern/contracts/internal'
import {
  type BaseConfig,
  ConfigurationError,
  type Environment,
  baseConfig,
  baseEnvironment,
  edgeEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import { type SignInProvider, signInEnvironment, signInProviders } from '@postern/sign-in'
import type { KeyRing } from '@postern/signed-context'
import { z } from 'zod'
import { parseAddressRanges } from '@postern/service-kit/access'
import type { KeySchemes } from './authenticate/credentials.ts'

export interface UpstreamConfig {
  readonly url: string
  readonly ring: KeyRing
}

export interface GatewayConfig extends BaseConfig {
  /** Health and metrics, which clients must not reach. */
  readonly adminPort: number
  readonly name: string
  readonly upstreams: Readonly<Record<Upstream, UpstreamConfig>>
  readonly assertionRing: KeyRing
  readonly internalRing: KeyRing
  readonly cacheRing: KeyRing
  readonly redisUrl: string
  readonly trustedProxies: readonly string[]
  /** About 2 KiB each. */
  readonly memoryEntries: number
  /** Failed authentications of one address, over all gateways. */
  readonly failedAttemptsPerMinute: number
  readonly publicRequestsPerMinute: number
  /** Without a final slash, or `/`. */
  readonly apiUrl: string
  /** Removed by a proxy, such as `/postern`; empty at the root. */
  readonly basePath: string
  readonly maxUrlBytes: number
  readonly maxHeaderBytes: number
  readonly clientTimeoutMs: number
  readonly keepAliveMs: number
  readonly maxUnreadBytes: number
  readonly upstreamConnections: number
  /** One tenant's part of `upstreamConnections`. */
  readonly tenantConnections: number
  readonly upstreamWaiting: number
  /** If empty, `Authorization: Bearer` is rejected. */
  readonly providers: readonly SignInProvider[]
  readonly keySchemes: KeySchemes
  readonly explainsTokens: boolean
}

const keySchemeNames = new Set(['ApiKey', 'Bearer', 'Basic'])

export const environment = {
  ...baseEnvironment,
  POSTERN_PORT: settings.port(8080).describe('The port for clients.'),
  POSTERN_ADMIN_PORT: settings
    .port(0)
    .describe('The port for health and metrics, which clients must not reach. 0 takes a free one.'),
  POSTERN_GATEWAY_NAME: z
    .string()
    .min(1)
    .max(maxGatewayName, `must have at most ${maxGatewayName} characters`)
    .default(hostname().slice(0, maxGatewayName))
    .describe('The name of this gateway in the list of leases.'),
  POSTERN_REDIS_URL: settings.redisUrl.describe(
    'The Redis server, Sentinels or cluster, with the login of the gateway. A secret.',
  ),
  POSTERN_KEYS_URL: settings.httpOrigin.describe('Scheme, host and port of the keys service.'),
  POSTERN_FINDINGS_URL: settings.httpOrigin.describe('Scheme, host and port of the findings service.'),
  POSTERN_UNIVERSE_URL: settings.httpOrigin.describe('Scheme, host and port of the universe service.'),
  POSTERN_EVIDENCE_URL: settings.httpOrigin.describe('Scheme, host and port of the evidence service.'),
  POSTERN_SYNC_URL: settings.httpOrigin.describe('Scheme, host and port of the sync service.'),
  POSTERN_SIGNING_KEYS: settings.keyRing.describe('Signs requests to the keys service. A secret.'),
  POSTERN_SIGNING_FINDINGS: settings.keyRing.describe('Signs requests to the findings service. A secret.'),
  POSTERN_SIGNING_UNIVERSE: settings.keyRing.describe('Signs requests to the universe service. A secret.'),
  POSTERN_SIGNING_EVIDENCE: settings.keyRing.describe('Signs requests to the evidence service. A secret.'),
  POSTERN_SIGNING_SYNC: settings.keyRing.describe('Signs requests to the sync service. A secret.'),
  POSTERN_ASSERTION_KEYS: settings.keyRing.describe('Signs the tenant assertions that PostgreSQL verifies. A secret.'),
  POSTERN_INTERNAL_SIGNING_KEYS: settings.keyRing.describe(
    'Signs look-ups of keys, leases and reports to the keys service. A secret.',
  ),
  POSTERN_CACHE_SIGNING_KEYS: settings.keyRing.describe('Verifies key records and announcements in Redis. A secret.'),
  POSTERN_TRUSTED_PROXIES: z
    .string()
    .default('')
    .transform((text) => text.split(',').map((part) => part.trim()))
    .transform((parts) => parts.filter((part) => part !== ''))
    .refine((ranges) => parseAddressRanges(ranges) !== undefined, { message: 'must be addresses or CIDR ranges' })
    .describe('Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted, separated by commas.'),
  POSTERN_MEMORY_ENTRIES: settings
    .integer({ min: 100, max: 10_000_000, fallback: 100_000 })
    .describe('Keys in memory, about 2 KiB each. Keep it below 200,000.'),
  POSTERN_FAILED_ATTEMPTS: settings
    .integer({ min: 1, max: 1_000_000_000, fallback: 300 })
    .describe(
      'Failed authentications a minute of one address (IPv6: a /64), over all gateways. Further ones get 429; valid keys still work.',
    ),
  POSTERN_KEY_SCHEMES: z
    .string()
    .default('ApiKey')
    .transform((text) => text.split(',').map((part) => part.trim()))
    .refine((schemes) => schemes.every((scheme) => keySchemeNames.has(scheme)), {
      message: 'must be ApiKey, Bearer and Basic, separated by commas',
    })
    .refine((schemes) => schemes.includes('ApiKey'), { message: 'must include ApiKey' })
    .describe(
      'Schemes of `Authorization` for keys, separated by commas: `ApiKey`, and `Bearer` or `Basic` for clients that know nothing else. With `Basic` the key is the password.',
    ),
  POSTERN_PUBLIC_REQUESTS: settings
    .integer({ min: 1, max: 1_000_000_000, fallback: 600 })
    .describe(
      'Requests a minute of one address to public routes at this gateway, and as many without usable credentials. Further ones get 429.',
    ),
  POSTERN_API_URL: settings.publicUrl
    .optional()
    .describe('The public URL of the API. If it has a path, the proxy in front must remove that path.'),
  POSTERN_MAX_URL_BYTES: settings
    .integer({ min: 256, max: 65_536, fallback: 8192 })
    .describe('The longest request target. Longer ones get 414.'),
  POSTERN_MAX_HEADER_BYTES: settings
    .integer({ min: 4096, max: 262_144, fallback: 16_384 })
    .describe('The largest head of a request. Larger ones get 431.'),
  POSTERN_CLIENT_TIMEOUT_MS: settings
    .integer({ min: 100, max: 120_000, fallback: 10_000 })
    .describe(
      'How long a client may take for the head of a request, and for each 10 KiB of its body, in milliseconds. Then it gets 408.',
    ),
  ...edgeEnvironment,
  POSTERN_UPSTREAM_CONNECTIONS: settings
    .integer({ min: 1, max: 10_000, fallback: 256 })
    .describe('Connections to each service. One tenant gets at most three quarters.'),
  POSTERN_TENANT_CONNECTIONS: settings
    .integer({ min: 1, max: 10_000, fallback: 96 })
    .describe('Connections to each service that one tenant may use. Further requests wait.'),
  POSTERN_UPSTREAM_WAITING: settings
    .integer({ min: 0, max: 1_000_000, fallback: 1024 })
    .describe('Requests that may wait for a connection to one service. Further ones get 503.'),
  ...signInEnvironment,
} as const

/** Throws a ConfigurationError that lists every fault. */
export function readConfig(env: Environment): GatewayConfig {
  const values = parseEnvironment(env, environment)
  return Object.freeze({
    ...baseConfig(values, {}),
    adminPort: values.POSTERN_ADMIN_PORT,
    name: values.POSTERN_GATEWAY_NAME,
    upstreams: {
      keys: { url: values.POSTERN_KEYS_URL, ring: values.POSTERN_SIGNING_KEYS },
      findings: { url: values.POSTERN_FINDINGS_URL, ring: values.POSTERN_SIGNING_FINDINGS },
      universe: { url: values.POSTERN_UNIVERSE_URL, ring: values.POSTERN_SIGNING_UNIVERSE },
      evidence: { url: values.POSTERN_EVIDENCE_URL, ring: values.POSTERN_SIGNING_EVIDENCE },
      sync: { url: values.POSTERN_SYNC_URL, ring: values.POSTERN_SIGNING_SYNC },
    },
    assertionRing: values.POSTERN_ASSERTION_KEYS,
    internalRing: values.POSTERN_INTERNAL_SIGNING_KEYS,
    cacheRing: values.POSTERN_CACHE_SIGNING_KEYS,
    redisUrl: values.POSTERN_REDIS_URL,
    trustedProxies: values.POSTERN_TRUSTED_PROXIES,
    memoryEntries: values.POSTERN_MEMORY_ENTRIES,
    failedAttemptsPerMinute: values.POSTERN_FAILED_ATTEMPTS,
    publicRequestsPerMinute: values.POSTERN_PUBLIC_REQUESTS,
    apiUrl: values.POSTERN_API_URL?.replace(/\/$/, '') ?? '/',
    basePath: basePathOf(values.POSTERN_API_URL),
    maxUrlBytes: values.POSTERN_MAX_URL_BYTES,
    maxHeaderBytes: values.POSTERN_MAX_HEADER_BYTES,
    clientTimeoutMs: values.POSTERN_CLIENT_TIMEOUT_MS,
    keepAliveMs: values.POSTERN_KEEP_ALIVE_MS,
    maxUnreadBytes: values.POSTERN_UNREAD_BYTES,
    upstreamConnections: values.POSTERN_UPSTREAM_CONNECTIONS,
    tenantConnections: values.POSTERN_TENANT_CONNECTIONS,
    upstreamWaiting: values.POSTERN_UPSTREAM_WAITING,
    providers: readProviders(values),
    keySchemes: {
      bearer: values.POSTERN_KEY_SCHEMES.includes('Bearer'),
      basic: values.POSTERN_KEY_SCHEMES.includes('Basic'),
    },
    explainsTokens: values.POSTERN_SIGN_IN_DETAILS,
  })
}

function basePathOf(apiUrl: string | undefined): string {
  return apiUrl === undefined ? '' : new URL(apiUrl).pathname.replace(/\/$/, '')
}

function readProviders(values: z.output<z.ZodObject<typeof environment>>): readonly SignInProvider[] {
  try {
    return signInProviders(values)
  } catch (error) {
    throw new ConfigurationError([error instanceof Error ? error.message : 'the providers cannot be read'])
  }
}
