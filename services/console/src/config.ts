import { readFileSync } from 'node:fs'
import { isProtectedUrl } from '@postern/contracts/internal'
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

export interface Config extends BaseConfig {
  /** Health and metrics; must not be public. */
  readonly adminPort: number
  readonly keepAliveMs: number
  readonly maxUnreadBytes: number
  /** Without a trailing slash. Plain HTTP only on loopback. */
  readonly url: string
  /** Scheme, host and port of `url`. */
  readonly origin: string
  /** Path of `url`, which a proxy removes; empty at the root. */
  readonly basePath: string
  /** Whether the origin is https; cookies are then `Secure`. */
  readonly isSecure: boolean
  readonly gatewayUrl: string
  /** The gateway's URL for integrations. */
  readonly apiUrl: string
  /** A secret. */
  readonly redisUrl: string
  /** Encrypts sessions in Redis and cookies of sign-ins. */
  readonly sessionRing: KeyRing
  readonly session: {
    readonly idleMs: number
    readonly absoluteMs: number
  }
  /** If empty, nobody can sign in. */
  readonly providers: readonly ProviderConfig[]
  readonly explainsSignIn: boolean
}

export interface ProviderConfig extends SignInProvider {
  /** Undefined for a public client, which only PKCE protects. */
  readonly clientSecret: string | undefined
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
      message: 'must be an https URL (http only on the loopback address)',
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
  ...signInEnvironment,
  POSTERN_OIDC_CLIENT_ID: settings.text('postern-console').describe('The client id of the console at the provider.'),
  POSTERN_OIDC_CLIENT_SECRET: z
    .string()
    .min(1)
    .optional()
    .describe('The client secret. Without it the console is a public client, protected by PKCE. A secret.'),
  POSTERN_OIDC_SCOPE: settings
    .text('openid profile email')
    .refine((text) => text.split(' ').includes('openid'), { message: 'must hold openid' })
    .describe(
      'The scopes to request. They must include `openid`. Auth0, Dex, Entra ID and Okta need `offline_access` as well, or sessions end with their first access token; Keycloak must not have it.',
    ),
  POSTERN_OIDC_RESOURCE: z
    .string()
    .min(1)
    .optional()
    .describe('The API that the access token is for (RFC 8707), for providers that need it.'),
} as const

/** The error lists every invalid setting, without values. */
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
    providers: readProviders(values),
    explainsSignIn: values.POSTERN_SIGN_IN_DETAILS,
  })
}

function readProviders(values: z.output<z.ZodObject<typeof environment>>): readonly ProviderConfig[] {
  const faults: string[] = []
  let providers: readonly SignInProvider[] = []
  try {
    providers = signInProviders(values, {
      client_id: values.POSTERN_OIDC_CLIENT_ID,
      scope: values.POSTERN_OIDC_SCOPE,
      ...(values.POSTERN_OIDC_RESOURCE === undefined ? {} : { resource: values.POSTERN_OIDC_RESOURCE }),
    })
  } catch (error) {
    faults.push(error instanceof Error ? error.message : 'the providers cannot be read')
  }
  const own = values.POSTERN_OIDC_CLIENT_SECRET
  if (own !== undefined && providers.length > 1 && providers.some((each) => each.clientSecretFile === undefined)) {
    faults.push('POSTERN_OIDC_CLIENT_SECRET: is for one provider. Set client_secret_file of each provider')
  }
  const read = providers.map((provider): ProviderConfig => {
    const { name, clientSecretFile: file } = provider
    if (file === undefined) return { ...provider, clientSecret: own }
    try {
      const clientSecret = readFileSync(file, 'utf8').trim()
      if (clientSecret === '') throw new Error('the file is empty')
      return { ...provider, clientSecret }
    } catch {
      faults.push(`POSTERN_SIGN_IN: the file client_secret_file of ${name} is empty or cannot be read`)
      return { ...provider, clientSecret: undefined }
    }
  })
  if (faults.length > 0) throw new ConfigurationError(faults)
  return read
}
