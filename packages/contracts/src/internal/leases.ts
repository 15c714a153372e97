import { z } from 'zod'
import { grantableScopes, roles } from '../scope.ts'
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

const hashSchema = z.string().regex(/^[0-9a-f]{64}$/)

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

/** Lines of a report that one transaction records. A revocation may wait for it. */
export const maxUsageTogether = 500
export const maxRefusalsTogether = 50
/** Refusals of a key that a report contains, and that are stored. */
export const maxRecentRefusals = 100

/** Requests since the gateway's last report. */
export const usageReportSchema = z.strictObject({
  uses: z
    .array(
      z.strictObject({
        keyId: z.uuid(),
        tenantId: z.uuid(),
        address: z.string().max(64),
        lastUsedAt: z.int(),
        count: z.int().min(1),
        routes: z.record(z.string().min(1).max(64), z.int().min(1)),
      }),
    )
    .max(10_000),
  denials: z
    .array(
      z.strictObject({
        keyId: z.uuid(),
        tenantId: z.uuid(),
        address: z.string().max(64),
        reason: z.enum(['expired', 'revoked', 'address', 'scope']),
        at: z.int(),
        count: z.int().min(1),
      }),
    )
    .max(10_000),
  /** Refusals by key. */
  refusals: z
    .array(
      z.strictObject({
        keyId: z.uuid(),
        tenantId: z.uuid(),
        counts: z
          .array(
            z.strictObject({
              /** Null, like the route, if too many addresses and routes were counted. */
              address: z.string().min(1).max(64).nullable(),
              /** Null also if no route matched. */
              route: z.string().min(1).max(64).nullable(),
              code: z.string().min(1).max(64),
              count: z.int().min(1),
              firstAt: z.int(),
              lastAt: z.int(),
            }),
          )
          .max(100),
        recent: z
          .array(
            z.strictObject({
              at: z.int(),
              requestId: z.string().min(1).max(128),
              method: z.string().min(1).max(32),
              route: z.string().min(1).max(64).nullable(),
              address: z.string().min(1).max(64),
              code: z.string().min(1).max(64),
            }),
          )
          .max(maxRecentRefusals),
      }),
    )
    .max(1000)
    .optional(),
  people: z
    .array(
      z.strictObject({
        tenantId: z.uuid(),
        id: z.string().min(1).max(255),
        name: z.string().min(1).max(255),
        roles: z.array(z.enum(roles)),
        lastSeenAt: z.int(),
        /** The hash of the name in the directory. */
        directory: hashSchema.optional(),
      }),
    )
    .max(10_000)
    .optional(),
  /** People who signed in to the console, or were refused. */
  signIns: z
    .array(
      z.strictObject({
        tenantId: z.uuid(),
        id: z.string().min(1).max(255),
        name: z.string().min(1).max(255),
        /** Why it failed. */
        reason: z.enum(['no_role', 'person_inactive', 'person_unknown', 'tenant_suspended']).nullable(),
        address: z.string().min(1).max(64),
        at: z.int(),
        /** Absent from gateways of an earlier release. */
        requestId: z.string().min(1).max(128).optional(),
      }),
    )
    .max(10_000)
    .optional(),
})
export type UsageReport = z.infer<typeof usageReportSchema>

export const internalPaths = {
  leases: '/internal/v1/leases',
  releaseLease: '/internal/v1/leases/release',
  lookupKeys: '/internal/v1/keys/lookups',
  lookupTenant: '/internal/v1/tenants/lookup',
  lookupPerson: '/internal/v1/directory/lookup',
  usage: '/internal/v1/usage',
  tenants: '/internal/v1/tenants',
  pushEntities: '/internal/v1/entities',
  pushOrgStructures: '/internal/v1/org-structures',
  pushTestProcedures: '/internal/v1/test-procedures',
  pushPeople: '/internal/v1/people',
  beginImport: '/internal/v1/imports/begin',
  importHashes: '/internal/v1/imports/hashes',
  importRows: '/internal/v1/imports/rows',
  planImport: '/internal/v1/imports/plan',
  planRollback: '/internal/v1/imports/rollback',
  undoable: '/internal/v1/imports/undoable',
  checkImport: '/internal/v1/imports/check',
  applyImport: '/internal/v1/imports/apply',
  stopImport: '/internal/v1/imports/stop',
  importErrors: '/internal/v1/imports/errors',
  importChanges: '/internal/v1/imports/changes',
  missingRows: '/internal/v1/imports/missing',
  exportImport: '/internal/v1/imports/export',
  clearImports: '/internal/v1/imports/clear',
  subtree: '/internal/v1/entities/subtree',
  entityNames: '/internal/v1/entities/names',
  retireSource: '/internal/v1/sources/retired',
  lookupPeople: '/internal/v1/people/lookup',
  identifyPeople: '/internal/v1/people/identify',
  lookupTestProcedures: '/internal/v1/test-procedures/lookup',
  resolveReferences: '/internal/v1/references/resolve',
  unknownReferences: '/internal/v1/references/unknown',
  unknownEvidence: '/internal/v1/evidence/unknown',
  openCounts: '/internal/v1/findings/open-counts',
  currentRows: '/internal/v1/current-rows',
  rewrapSecrets: '/internal/v1/connector-secrets/rewrap',
} as const
