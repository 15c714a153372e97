import { z } from 'zod'
import { roles } from '../scope.ts'
import { hashSchema } from './leases.ts'

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
