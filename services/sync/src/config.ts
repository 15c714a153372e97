import {
  type BaseConfig,
  ConfigurationError,
  type DatabaseConfig,
  type Environment,
  baseConfig,
  baseEnvironment,
  databaseConfig,
  databaseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import type { KeyRing } from '@postern/signed-context'
import { emailSchema } from '@postern/contracts'
import { z } from 'zod'
import { isNetwork } from './outbound/address-policy.ts'

export interface Config extends BaseConfig {
  /** Encrypts the secrets of connectors and webhooks where they are stored. */
  readonly secretRing: KeyRing
  /** Concurrent runs of this process; 0 if it only serves requests. */
  readonly workers: number
  /** Endpoints that this process sends events to at a time; 0 if it sends none. */
  readonly webhookWorkers: number
  readonly queuePollMs: number
  /** Ranges (CIDR) of the platform's network that sources may be in. */
  readonly networks: readonly string[]
  /** Days to keep errors of runs and changes that were only reviewed. Undefined: forever. */
  readonly keepDetailsDays: number | undefined
  /** For addresses in SCIM responses and events. Undefined: addresses are paths. */
  readonly apiUrl: string | undefined
  readonly mail: { readonly url: string; readonly from: string } | undefined
  readonly database: DatabaseConfig
  readonly universe: {
    /** Without a slash at the end. */
    readonly url: string
    readonly ring: KeyRing
    /** In milliseconds, less than the timeout of the gateway. */
    readonly timeoutMs: number
  }
}

const networksSetting = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((range) => range.trim())
      .filter((range) => range !== ''),
  )
  .refine((ranges) => ranges.every((range) => range.includes('/') && isNetwork(range)), {
    message: 'must be ranges in CIDR notation, as 10.1.0.0/16 or fd00:1::/32, separated by commas',
  })

export const environment = {
  ...baseEnvironment,
  ...databaseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe('The connection string of the role `postern_sync`. A secret.'),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 1, max: 200, fallback: 10 })
    .describe('Connections to PostgreSQL. One tenant gets at most three quarters. A run uses two.'),
  POSTERN_SIGNING_SYNC: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_SYNC_UNIVERSE: settings.keyRing.describe('Signs requests to the universe service. A secret.'),
  POSTERN_SIGNING_OPERATOR: settings.keyRing.describe('Verifies requests of operators. A secret.'),
  POSTERN_REVOKED_OPERATORS: settings.operatorNames.describe(
    'Names of operators whose credentials are rejected, separated by commas.',
  ),
  POSTERN_SYNC_SECRETS: settings.keyRing.describe(
    'Encrypts the credentials of connectors and the secrets of webhooks in the database. A secret.',
  ),
  POSTERN_SYNC_WORKERS: settings
    .integer({ min: 0, max: 16, fallback: 2 })
    .describe('Runs that this process carries out at a time. 0: it only answers requests.'),
  POSTERN_WEBHOOK_WORKERS: settings
    .integer({ min: 0, max: 64, fallback: 8 })
    .describe('Webhook endpoints that this process sends events to at a time. 0: it sends none.'),
  POSTERN_SYNC_POLL_MS: settings
    .integer({ min: 500, max: 60_000, fallback: 1_000 })
    .describe('How often a worker looks for a run, in milliseconds.'),
  POSTERN_SYNC_NETWORKS: networksSetting.describe(
    'CIDR ranges of internal networks that may contain sources and webhook endpoints, separated by commas. Sources there can be read without TLS.',
  ),
  POSTERN_SYNC_KEEP_DETAILS_DAYS: settings
    .integer({ min: 0, max: 36_500, fallback: 0 })
    .describe('Days to keep errors of runs and changes that were only reviewed. 0: forever.'),
  POSTERN_SMTP_URL: z
    .string()
    .refine((text) => text === '' || /^smtps?:\/\/[^\s]+$/.test(text), {
      message: 'must be smtp://user:password@host:587, or smtps for TLS from the start',
    })
    .default('')
    .describe('The mail server for events that administrators want by e-mail. A secret. Empty: no e-mail.'),
  POSTERN_SMTP_FROM: z
    .union([z.literal(''), emailSchema])
    .default('')
    .describe('The sender of e-mails. Needed with `POSTERN_SMTP_URL`.'),
  POSTERN_API_URL: settings.publicUrl
    .optional()
    .describe('The public URL of the API, for addresses in SCIM responses and in events for webhooks.'),
  POSTERN_UNIVERSE_URL: settings.httpUrl.describe('Where the universe service listens.'),
  POSTERN_UNIVERSE_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 20_000 })
    .describe(
      'How long the universe service may take to apply a push, in milliseconds. A step of an import may take three times as long.',
    ),
} as const

/** Reads the settings. Throws a ConfigurationError that names every fault and no value. */
export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, environment)
  return {
    ...baseConfig(
      values,
      { sync: values.POSTERN_SIGNING_SYNC, operator: values.POSTERN_SIGNING_OPERATOR },
      values.POSTERN_REVOKED_OPERATORS,
    ),
    secretRing: values.POSTERN_SYNC_SECRETS,
    workers: values.POSTERN_SYNC_WORKERS,
    webhookWorkers: values.POSTERN_WEBHOOK_WORKERS,
    queuePollMs: values.POSTERN_SYNC_POLL_MS,
    networks: values.POSTERN_SYNC_NETWORKS,
    keepDetailsDays: values.POSTERN_SYNC_KEEP_DETAILS_DAYS || undefined,
    apiUrl: values.POSTERN_API_URL,
    mail: mailConfig(values.POSTERN_SMTP_URL, values.POSTERN_SMTP_FROM),
    database: databaseConfig(values),
    universe: {
      url: values.POSTERN_UNIVERSE_URL,
      ring: values.POSTERN_SIGNING_SYNC_UNIVERSE,
      timeoutMs: values.POSTERN_UNIVERSE_TIMEOUT_MS,
    },
  }
}

function mailConfig(url: string, from: string): Config['mail'] {
  if (url === '') return undefined
  if (from === '') throw new ConfigurationError(['POSTERN_SMTP_FROM: must be set if POSTERN_SMTP_URL is'])
  return { url, from }
}
