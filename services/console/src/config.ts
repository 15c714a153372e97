import {
  type BaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  edgeEnvironment,
  isProtectedUrl,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import { z } from 'zod'

/** How the console is set up. */
export interface Config extends BaseConfig {
  /** Health and metrics, on a port of their own that the outside does not reach. 0 takes any free port. */
  readonly adminPort: number
  /** How long a connection may be idle before it is closed. */
  readonly keepAliveMs: number
  /** Bytes of answers that may wait for clients that do not read. */
  readonly maxUnreadBytes: number
  /** URL at which browsers reach the console, without a slash at its end. Plain HTTP only on the loopback address. */
  readonly url: string
  /** Its scheme, host and port. */
  readonly origin: string
  /** Its path, which a proxy removes; empty at the root. */
  readonly basePath: string
  /** Whether the origin is https: cookies are then `Secure`. */
  readonly isSecure: boolean
  readonly gatewayUrl: string
  /** URL at which integrations reach the gateway: the pages show it in what is to be copied. */
  readonly apiUrl: string
  /** A secret: it holds the password. */
  readonly redisUrl: string
  /** Seals what lies in Redis and in the cookie of a sign-in that is under way. */
  readonly sessionRing: KeyRing
  readonly session: {
    /** A session ends when it was not used for so long. */
    readonly idleMs: number
    /** A session ends so long after the sign-in, however much it is used. */
    readonly absoluteMs: number
  }
  /** Undefined where none is set: nobody can sign in then, and every page says so. */
  readonly provider: ProviderConfig | undefined
}

/** The OpenID provider at which people sign in. */
export interface ProviderConfig {
  /** As the provider names itself, to the letter; found by discovery. */
  readonly issuer: string
  readonly clientId: string
  /** Undefined for a public client, which PKCE alone protects. */
  readonly clientSecret: string | undefined
  readonly scope: string
  /** The API that the access token is asked for (RFC 8707), where the provider wants to be told. */
  readonly resource: string | undefined
}

export const environment = {
  ...baseEnvironment,
  POSTERN_PORT: settings.port(8090).describe('The port for browsers.'),
  POSTERN_ADMIN_PORT: settings
    .port(0)
    .describe('The port for health and metrics, which browsers must not reach. 0 takes a free one.'),
  ...edgeEnvironment,
  POSTERN_CONSOLE_URL: settings.publicUrl
    .refine(isProtectedUrl, {
      message: 'must be an https URL (http on the loopback address alone)',
    })
    .describe(
      'The URL that browsers use. Plain HTTP only on the loopback address. If it has a path, the proxy in front must remove that path and pass `Host`.',
    ),
  POSTERN_GATEWAY_URL: settings.httpUrl.describe('Where the console reaches the gateway.'),
  POSTERN_API_URL: settings.publicUrl
    .optional()
    .describe('Where integrations reach the gateway, for the commands that the pages show. Default: the gateway.'),
  POSTERN_REDIS_URL: settings.redisUrl.describe(
    'The Redis server, Sentinels or cluster, with the login of the console. A secret.',
  ),
  POSTERN_CONSOLE_SESSION: settings.keyRing.describe('Encrypts sessions and sign-ins. A secret.'),
  POSTERN_SESSION_IDLE_MINUTES: settings
    .integer({ min: 1, max: 1440, fallback: 30 })
    .describe('A session ends after so many minutes without use.'),
  POSTERN_SESSION_HOURS: settings
    .integer({ min: 1, max: 168, fallback: 12 })
    .describe('A session ends so many hours after the sign-in.'),
  POSTERN_OIDC_ISSUER: settings.protectedUrl
    .optional()
    .describe(
      'The OpenID provider, exactly as it names itself. Without it nobody can sign in, and every page says so.',
    ),
  POSTERN_OIDC_CLIENT_ID: settings.text('postern-console').describe('The client id of the console at the provider.'),
  POSTERN_OIDC_CLIENT_SECRET: z
    .string()
    .min(1)
    .optional()
    .describe('The client secret. Without it the console is a public client, protected by PKCE. A secret.'),
  POSTERN_OIDC_SCOPE: settings
    .text('openid profile email offline_access')
    .refine((text) => text.split(' ').includes('openid'), { message: 'must hold openid' })
    .describe('The scopes to request. They must include `openid`.'),
  POSTERN_OIDC_RESOURCE: z
    .string()
    .min(1)
    .optional()
    .describe('The API that the access token is for (RFC 8707), for providers that need it.'),
} as const

/** Reads the configuration; throws with all faults at once and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  const url = values.POSTERN_CONSOLE_URL
  const { origin, protocol } = new URL(url)
  return Object.freeze({
    ...baseConfig(values, {}),
    adminPort: values.POSTERN_ADMIN_PORT,
    keepAliveMs: values.POSTERN_KEEP_ALIVE_MS,
    maxUnreadBytes: values.POSTERN_UNREAD_BYTES,
    url,
    origin,
    basePath: url.slice(origin.length),
    isSecure: protocol === 'https:',
    gatewayUrl: values.POSTERN_GATEWAY_URL,
    apiUrl: values.POSTERN_API_URL ?? new URL(values.POSTERN_GATEWAY_URL).origin,
    redisUrl: values.POSTERN_REDIS_URL,
    sessionRing: values.POSTERN_CONSOLE_SESSION,
    session: {
      idleMs: values.POSTERN_SESSION_IDLE_MINUTES * 60_000,
      absoluteMs: values.POSTERN_SESSION_HOURS * 3_600_000,
    },
    provider:
      values.POSTERN_OIDC_ISSUER === undefined
        ? undefined
        : {
            issuer: values.POSTERN_OIDC_ISSUER,
            clientId: values.POSTERN_OIDC_CLIENT_ID,
            clientSecret: values.POSTERN_OIDC_CLIENT_SECRET,
            scope: values.POSTERN_OIDC_SCOPE,
            resource: values.POSTERN_OIDC_RESOURCE,
          },
  })
}
