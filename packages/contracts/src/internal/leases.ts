import { z } from 'zod'
import { grantableScopes, roles } from '../scope.ts'

/**
 * What the gateway and the keys service say to each other. None of this is public; every request is signed (RFC 9421)
 * with the secret that the two share.
 */

/** Length of a lease in milliseconds, as revocation.md calls L. */
export const leaseMs = 2000
/** How long before the end of a lease the gateway stops using it, in milliseconds. */
export const leaseMarginMs = 50
/** Renewals a lease: a gateway renews every `leaseMs / renewalsPerLease`. */
export const renewalsPerLease = 4
/** How long a cached key record may be used after the keys service read it, in milliseconds (L2 TTL, and the cap for L1). */
export const recordTtlMs = 10 * 60 * 1000
/** How long a gateway remembers that a key or tenant changed: longer than any record of before can live in any cache. */
export const floorTtlMs = 2 * recordTtlMs
/** How long the log keeps a change at least, by the monotonic clock of who drops it: a gateway that starts is given all of it. */
export const keepLogMs = 2 * floorTtlMs

/** Redis: key of a key's record, channel of revocations. The hash is the lower-case hex SHA-256 of the key. */
export const redisRecordKey = (hash: string): string => `postern:key:{${hash}}`
export const redisRevocationChannel = 'postern:revocations'
/** Redis: channel on which one gateway hears itself, which shows that it hears. */
export const redisHeartbeatChannel = (gateway: string): string => `postern:heartbeat:${gateway}`

const hashSchema = z.string().regex(/^[0-9a-f]{64}$/)

/** A key as the gateway needs it. Times are milliseconds since the epoch on the database clock. */
export const keyRecordSchema = z.strictObject({
  hash: hashSchema,
  id: z.uuid(),
  tenantId: z.uuid(),
  tenantName: z.string(),
  tenantStatus: z.enum(['active', 'suspended']),
  /** Grows with every change of the tenant's status. */
  tenantVersion: z.int(),
  label: z.string(),
  lastFour: z.string(),
  scopes: z.array(z.enum(grantableScopes)),
  allowedAddresses: z.array(z.string()),
  expiresAt: z.int(),
  revoked: z.boolean(),
  /** Grows with every change that could narrow the key. */
  version: z.int(),
  /** When the keys service read this, on the database clock: no cache may use it after `readAt + recordTtlMs`. */
  readAt: z.int(),
  /** Requests a minute that the key and its tenant may make over all gateways. */
  keyLimit: z.int().min(1),
  tenantLimit: z.int().min(1),
  /** Under which id its requests are counted, when that is not its own: keys of one chain of rotations share a limit. */
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

/**
 * One entry of the revocation log, in commit order. `key`: records of the hash below `version` are void, and when
 * `revoked` is set the key is dead. `tenant`: records of the tenant with a `tenantVersion` below `version` are void.
 */
export const revocationSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('key'), seq: z.int(), hash: hashSchema, version: z.int(), revoked: z.boolean() }),
  z.strictObject({ kind: z.literal('tenant'), seq: z.int(), tenantId: z.uuid(), version: z.int() }),
])
export type Revocation = z.infer<typeof revocationSchema>

/**
 * SHA-256, in hex, of all entries of the log up to a number, one after the other, from a random beginning on: of two logs
 * that have a number in common it tells whether they are the same up to there. `mark seq kind hash-or-tenant version
 * revoked`, with a blank between two, has the next; `revoked` is 1 or 0, and 0 of a tenant.
 */
const logMarkSchema = z.string().regex(/^[0-9a-f]{64}$/)

/** Characters of the name that a gateway is shown by. */
export const maxGatewayName = 100

/** `POST /internal/v1/leases`. `gateway` is new for every process start; `cursor` is null until the first answer is applied. */
export const leaseRequestSchema = z.strictObject({
  gateway: z.uuid(),
  name: z.string().max(maxGatewayName),
  cursor: z.int().min(0).nullable(),
  /** Of the log up to the cursor; null where it is not known. */
  mark: logMarkSchema.nullable(),
  /** Whether the answer says how many gateways hold a lease. */
  counts: z.literal(true).optional(),
})
export type LeaseRequest = z.infer<typeof leaseRequestSchema>

export const leaseAnswerSchema = z.strictObject({
  /** Whether the lease runs until `leaseMs` after the request was sent. Never while the gateway's cursor lags. */
  granted: z.boolean(),
  /** All that the log holds after the request's cursor (with no cursor: all that it holds, the last `keepLogMs` at least). */
  revocations: z.array(revocationSchema),
  /** Where the log stood when it was read. */
  cursor: z.int().min(0),
  /** Of the log up to that cursor; null if the log no longer holds it. */
  mark: logMarkSchema.nullable(),
  /** The cursor was older than the log or ahead of it, or of another log: forget all caches and start as new. */
  reset: z.boolean(),
  /** Database clock when the log was read, in milliseconds since the epoch. */
  now: z.int(),
  /** Gateways that hold a lease now, if the request asked for it. */
  gateways: z.int().min(0).optional(),
})
export type LeaseAnswer = z.infer<typeof leaseAnswerSchema>

/** `POST /internal/v1/leases/release`: a gateway that stops gives its lease back, so that no revocation waits for it. */
export const leaseReleaseSchema = z.strictObject({ gateway: z.uuid() })

/** Most keys of one look-up. */
export const maxLookups = 100

/** `POST /internal/v1/keys/lookups` → for each hash, in their order, a key record, or null where no key has it. */
export const lookupsRequestSchema = z.strictObject({ hashes: z.array(hashSchema).min(1).max(maxLookups) })
export const lookupsAnswerSchema = z.strictObject({ records: z.array(keyRecordSchema.nullable()), now: z.int() })

/** `POST /internal/v1/tenants/lookup` → a tenant record, or null. */
export const tenantLookupRequestSchema = z.strictObject({ tenantId: z.uuid() })
export const tenantLookupAnswerSchema = z.strictObject({ record: tenantRecordSchema.nullable(), now: z.int() })

/**
 * Lines that are recorded in one transaction; a revoke may have to wait for it. A report of one kind with no more of them is
 * recorded whole or not at all, so that one that failed can be sent again.
 */
export const maxUsageTogether = 500

/** `POST /internal/v1/usage`: what a gateway saw of keys and people since its last report; 204. */
export const usageReportSchema = z.strictObject({
  uses: z
    .array(
      z.strictObject({
        keyId: z.uuid(),
        tenantId: z.uuid(),
        address: z.string().max(64),
        lastUsedAt: z.int(),
        count: z.int().min(1),
        /** The accepted requests by route: a route's id to their number. */
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
  /** Who has signed in, as their tokens say. Absent if nobody has. */
  people: z
    .array(
      z.strictObject({
        tenantId: z.uuid(),
        id: z.string().min(1).max(255),
        name: z.string().min(1).max(255),
        roles: z.array(z.enum(roles)),
        lastSeenAt: z.int(),
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
  usage: '/internal/v1/usage',
  tenants: '/internal/v1/tenants',
  pushEntities: '/internal/v1/entities',
  pushOrgStructures: '/internal/v1/org-structures',
  pushTestProcedures: '/internal/v1/test-procedures',
  pushPeople: '/internal/v1/people',
  stopImport: '/internal/v1/imports/stop',
  subtree: '/internal/v1/entities/subtree',
  entityNames: '/internal/v1/entities/names',
  entitySources: '/internal/v1/entities/sources',
  lookupPeople: '/internal/v1/people/lookup',
  lookupTestProcedures: '/internal/v1/test-procedures/lookup',
  unknownReferences: '/internal/v1/references/unknown',
  unknownEvidence: '/internal/v1/evidence/unknown',
  openCounts: '/internal/v1/findings/open-counts',
  currentRows: '/internal/v1/current-rows',
  rewrapSecrets: '/internal/v1/connector-secrets/rewrap',
} as const
