import { z } from 'zod'
import { grantableScopes } from '../scope.ts'
import { tenantSlugSchema } from './tenants.ts'

export const leaseMs = 2000
export const leaseMarginMs = 50
export const renewalsPerLease = 4
/** How long any cache may use a record after the keys service read it. */
export const recordTtlMs = 10 * 60 * 1000
/** How long a gateway remembers a change: longer than any older record can stay in a cache. */
export const watermarkTtlMs = 2 * recordTtlMs
/** How long the log keeps a change, by the monotonic clock of the pruning process. */
export const keepLogMs = 2 * watermarkTtlMs

/** `hash`: SHA-256 of the key, in lower-case hex. */
export const redisRecordKey = (hash: string): string => `postern:key:{${hash}}`
export const redisRevocationChannel = 'postern:revocations'
/** A gateway receives its own messages here, to check its subscription. */
export const redisHeartbeatChannel = (gateway: string): string => `postern:heartbeat:${gateway}`

export const hashSchema = z.string().regex(/^[0-9a-f]{64}$/)

/** Times are milliseconds since the epoch on the database clock. */
export const keyRecordSchema = z.strictObject({
  hash: hashSchema,
  id: z.uuid(),
  tenantId: z.uuid(),
  tenantName: z.string(),
  tenantStatus: z.enum(['active', 'suspended']),
  /** Increases with every change of the tenant's status. */
  tenantVersion: z.int(),
  label: z.string(),
  lastFour: z.string(),
  scopes: z.array(z.enum(grantableScopes)),
  allowedAddresses: z.array(z.string()),
  expiresAt: z.int(),
  revoked: z.boolean(),
  /** Increases with every change that could narrow the key. */
  version: z.int(),
  /** No cache may use the record after `readAt + recordTtlMs`. */
  readAt: z.int(),
  keyLimit: z.int().min(1),
  tenantLimit: z.int().min(1),
  /** Keys of one chain of rotations share a limit. */
  limitId: z.uuid().optional(),
})
export type KeyRecord = z.infer<typeof keyRecordSchema>

export const tenantRecordSchema = z.strictObject({
  tenantId: z.uuid(),
  tenantName: z.string(),
  tenantStatus: z.enum(['active', 'suspended']),
  tenantVersion: z.int(),
  tenantLimit: z.int().min(1),
  readAt: z.int(),
})
export type TenantRecord = z.infer<typeof tenantRecordSchema>

/** The state of a name in the tenant's directory. `unknown`: nobody has had it. */
export const personRecordSchema = z.strictObject({
  /** Covers tenant, attribute and name (`tenancy.hash_name`). */
  hash: hashSchema,
  /** The number of the log's last entry when the record was read. */
  version: z.int(),
  status: z.enum(['active', 'inactive', 'unknown']),
  readAt: z.int(),
})
export type PersonRecord = z.infer<typeof personRecordSchema>

/** Voids records of the key or tenant below `version`. The hash is that of a key, or of a person's name in a directory. */
export const revocationSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('key'), seq: z.int(), hash: hashSchema, version: z.int(), revoked: z.boolean() }),
  z.strictObject({ kind: z.literal('tenant'), seq: z.int(), tenantId: z.uuid(), version: z.int() }),
])
export type Revocation = z.infer<typeof revocationSchema>

/**
 * Identifies the log: a SHA-256 (hex) over the previous mark (the first is random) and the next entry, as
 * `mark seq kind hash-or-tenant version revoked`. `revoked` is 1 or 0, and 0 for a tenant.
 */
const logMarkSchema = z.string().regex(/^[0-9a-f]{64}$/)

export const maxGatewayName = 100

/** Idle keys are revoked a day late, so that uses reported by then count. */
export const lateUsageMs = 12 * 60 * 60 * 1000

export const leaseRequestSchema = z.strictObject({
  gateway: z.uuid(),
  name: z.string().max(maxGatewayName),
  cursor: z.int().min(0).nullable(),
  mark: logMarkSchema.nullable(),
  counts: z.literal(true).optional(),
  /** Uses of keys could not be reported for `lateUsageMs`. */
  usageIsLate: z.literal(true).optional(),
})
export type LeaseRequest = z.infer<typeof leaseRequestSchema>

export const leaseAnswerSchema = z.strictObject({
  /** Valid until `leaseMs` after the request was sent. False while the gateway's cursor lags. */
  granted: z.boolean(),
  /** All entries after the cursor, or at least those of the last `keepLogMs`. */
  revocations: z.array(revocationSchema),
  cursor: z.int().min(0),
  /** The mark at the request's cursor, or null if the log no longer has it. */
  mark: logMarkSchema.nullable(),
  /** The cursor is too old, ahead of the log, or of another log: clear all caches. */
  reset: z.boolean(),
  /** The database clock when the log was read. */
  now: z.int(),
  gateways: z.int().min(0).optional(),
})
export type LeaseAnswer = z.infer<typeof leaseAnswerSchema>

/** A stopping gateway returns its lease, so that no revocation waits for it. */
export const leaseReleaseSchema = z.strictObject({ gateway: z.uuid() })

export const maxLookups = 100

export const lookupsRequestSchema = z.strictObject({ hashes: z.array(hashSchema).min(1).max(maxLookups) })
export const lookupsAnswerSchema = z.strictObject({ records: z.array(keyRecordSchema.nullable()), now: z.int() })

/** Answered with the record of the tenant, or null. */
export const tenantLookupRequestSchema = z.union([
  z.strictObject({ tenantId: z.uuid() }),
  z.strictObject({ slug: tenantSlugSchema }),
])
export const tenantLookupAnswerSchema = z.strictObject({ record: tenantRecordSchema.nullable(), now: z.int() })

/** SCIM attributes that identify the person of a token (RFC 7643). */
export const directoryAttributes = ['externalId', 'userName', 'emails.value'] as const

export const personLookupRequestSchema = z.strictObject({
  tenantId: z.uuid(),
  attribute: z.enum(directoryAttributes),
  name: z.string().min(1),
})
export type PersonLookup = z.infer<typeof personLookupRequestSchema>
export const personLookupAnswerSchema = z.strictObject({ record: personRecordSchema, now: z.int() })
