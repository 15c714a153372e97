import { maxEvidenceBytes } from '@postern/contracts'
import type { ServiceAddress } from '@postern/service-client'
import {
  type BaseConfig,
  type DatabaseConfig,
  type Environment,
  type SigningKeys,
  baseConfig,
  baseEnvironment,
  databaseConfig,
  databaseEnvironment,
  parseEnvironment,
  settings,
} from '@postern/service-kit'
import { z } from 'zod'
import type { ClamavOptions } from './scan/clamav.ts'
import { type StoreConfig, storeConfig, storeEnvironment, storeShape } from './store-config.ts'
import type { AllowedTypes } from './upload/file-kind.ts'

export interface Config extends BaseConfig {
  readonly database: DatabaseConfig
  readonly universe: ServiceAddress
  readonly clamav: ClamavOptions | undefined
  readonly store: StoreConfig
  readonly allowedTypes: AllowedTypes
  readonly maxFileBytes: number
  /** Open resumable uploads count. Undefined: no limit. */
  readonly tenantQuotaBytes: number | undefined
  readonly resumableForMs: number
  readonly stallMs: number
  readonly abandonedAfterMs: number
  readonly sweepEveryMs: number
  /** Ed25519 keys. The first signs receipts; the others verify older ones. */
  readonly receiptKeys: SigningKeys
}

const allowedTypes = z.string().transform((text, context): readonly string[] => {
  const types = text.split(',').map((type) => type.trim().toLowerCase())
  if (types.every((type) => /^[a-z]+\/(?:\*|[\w!#$&^.+-]{1,80})$/.test(type))) return types
  context.addIssue({
    code: 'custom',
    message: 'must be media types, such as application/pdf or text/*, separated by commas',
  })
  return z.NEVER
})

/** `tcp://host:port`, or `unix:///path` for a socket. */
const clamavAddress = z.string().transform((text, context): ClamavOptions['address'] => {
  const unix = /^unix:\/\/(\/[\x21-\x7e]{1,100})$/.exec(text)?.[1]
  if (unix !== undefined) return { path: unix }
  const [, name, port = ''] = /^tcp:\/\/([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})$/.exec(text) ?? []
  if (name !== undefined && Number(port) >= 1 && Number(port) <= 65_535) {
    return { host: name.replace(/^\[|\]$/g, ''), port: Number(port) }
  }
  context.addIssue({ code: 'custom', message: 'must be tcp://host:port or unix:///path' })
  return z.NEVER
})

/** The service would not read evidence from this directory. */
const onlyForMove: (typeof storeShape)['POSTERN_BLOB_MOVE_FROM'] = z
  .string()
  .optional()
  .refine((value) => value === undefined, 'is only for move-to-bucket: run it, then remove this setting')

const hourMs = 60 * 60 * 1000

export const maxResumableMs = 30 * 24 * hourMs

export const environment = {
  ...baseEnvironment,
  ...databaseEnvironment,
  POSTERN_DATABASE_URL: settings.databaseUrl.describe(
    'The connection string of the role `postern_evidence`. A secret.',
  ),
  POSTERN_DATABASE_CONNECTIONS: settings
    .integer({ min: 1, max: 200, fallback: 16 })
    .describe(
      'Connections to PostgreSQL. One tenant gets at most three quarters. An upload uses one only while it is recorded.',
    ),
  POSTERN_SIGNING_EVIDENCE: settings.keyRing.describe('Verifies requests of the gateway. A secret.'),
  POSTERN_SIGNING_EVIDENCE_UNIVERSE: settings.keyRing.describe('Signs requests to the universe service. A secret.'),
  POSTERN_SIGNING_FINDINGS_EVIDENCE: settings.keyRing.describe('Verifies requests of the findings service. A secret.'),
  POSTERN_UNIVERSE_URL: settings.httpUrl.describe('Where the universe service listens.'),
  POSTERN_UNIVERSE_TIMEOUT_MS: settings
    .integer({ min: 100, max: 60_000, fallback: 3_000 })
    .describe('How long the universe service may take to answer, in milliseconds.'),
  POSTERN_CLAMAV_URL: clamavAddress
    .optional()
    .describe(
      'The clamd that scans uploads: `tcp://host:port` or `unix:///path`. Without it nothing is scanned, and receipts say so.',
    ),
  // The default limit of clamd in Debian.
  POSTERN_CLAMAV_MAX_BYTES: settings
    .integer({ min: 1, max: 2 ** 32 - 1, fallback: 25 * 1024 * 1024 })
    .describe("Larger files are not scanned. No more than clamd's `StreamMaxLength`."),
  POSTERN_CLAMAV_TIMEOUT_MS: settings
    .integer({ min: 100, max: 240_000, fallback: 30_000 })
    .describe('How long clamd may take to answer, in milliseconds.'),
  ...storeShape,
  POSTERN_EVIDENCE_ALLOWED_TYPES: allowedTypes
    .optional()
    .describe(
      'Media types that are accepted, such as `application/pdf` or `text/*`, separated by commas. Without it: all except programs, scripts and web pages.',
    ),
  POSTERN_EVIDENCE_MAX_BYTES: settings
    .integer({ min: 1, max: maxEvidenceBytes, fallback: maxEvidenceBytes })
    .describe('The largest file, in bytes.'),
  POSTERN_EVIDENCE_TENANT_QUOTA_BYTES: settings
    .integer({ min: 0, max: Number.MAX_SAFE_INTEGER, fallback: 0 })
    .transform((bytes) => (bytes === 0 ? undefined : bytes))
    .describe('Bytes that one tenant may store, including open resumable uploads. 0: only the disk limits it.'),
  POSTERN_EVIDENCE_RESUMABLE_MS: settings
    .integer({ min: 1000, max: maxResumableMs, fallback: 24 * hourMs })
    .describe('How long a resumable upload may take, in milliseconds.'),
  POSTERN_EVIDENCE_STALL_MS: settings
    .integer({ min: 100, max: hourMs, fallback: 60_000 })
    .describe('How long an upload may pause before the service ends it, in milliseconds.'),
  // 0 is for tests: a low value could delete bytes that are about to be recorded.
  POSTERN_EVIDENCE_ABANDONED_AFTER_MS: settings
    .integer({ min: 0, max: 30 * 24 * hourMs, fallback: hourMs })
    .refine((ms) => ms === 0 || ms >= hourMs / 4, 'must be at least 900000 (15 minutes)')
    .describe('The age after which leftovers of uploads are deleted, in milliseconds; at least 900000 (15 minutes).'),
  POSTERN_EVIDENCE_SWEEP_MS: settings
    .integer({ min: 1000, max: 24 * hourMs, fallback: hourMs })
    .describe('How often to delete leftovers of uploads, in milliseconds.'),
  POSTERN_RECEIPT_KEY: settings.ed25519Keys.describe(
    'Ed25519 private keys (PEM). The first signs receipts; all are published. A secret.',
  ),
  POSTERN_RECEIPT_PREVIOUS_KEY: settings.ed25519Keys
    .optional()
    .describe('Earlier private keys, published so that their receipts can be verified. A secret.'),
} as const

export function readConfig(env: Environment): Config {
  const values = parseEnvironment(env, {
    ...environment,
    ...storeEnvironment(env),
    POSTERN_BLOB_MOVE_FROM: onlyForMove,
  })
  return {
    ...baseConfig(values, {
      evidence: values.POSTERN_SIGNING_EVIDENCE,
      'findings-evidence': values.POSTERN_SIGNING_FINDINGS_EVIDENCE,
    }),
    database: databaseConfig(values),
    universe: {
      url: values.POSTERN_UNIVERSE_URL,
      ring: values.POSTERN_SIGNING_EVIDENCE_UNIVERSE,
      timeoutMs: values.POSTERN_UNIVERSE_TIMEOUT_MS,
    },
    clamav:
      values.POSTERN_CLAMAV_URL === undefined
        ? undefined
        : {
            address: values.POSTERN_CLAMAV_URL,
            maxBytes: values.POSTERN_CLAMAV_MAX_BYTES,
            timeoutMs: values.POSTERN_CLAMAV_TIMEOUT_MS,
          },
    store: storeConfig(values),
    allowedTypes: values.POSTERN_EVIDENCE_ALLOWED_TYPES,
    maxFileBytes: values.POSTERN_EVIDENCE_MAX_BYTES,
    tenantQuotaBytes: values.POSTERN_EVIDENCE_TENANT_QUOTA_BYTES,
    resumableForMs: values.POSTERN_EVIDENCE_RESUMABLE_MS,
    stallMs: values.POSTERN_EVIDENCE_STALL_MS,
    abandonedAfterMs: values.POSTERN_EVIDENCE_ABANDONED_AFTER_MS,
    sweepEveryMs: values.POSTERN_EVIDENCE_SWEEP_MS,
    receiptKeys: [...values.POSTERN_RECEIPT_KEY, ...(values.POSTERN_RECEIPT_PREVIOUS_KEY ?? [])],
  }
}
