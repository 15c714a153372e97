import { z } from 'zod'
import { timestampSchema } from '../common.ts'
import { addressesSchema } from './api-key.ts'
import { auditRetention, mostKeyDays } from './limits.ts'

const moreRules = {
  forbid_wildcards: z.boolean().meta({ description: 'Whether new keys must name their scopes without wildcards' }),
  require_owner: z.boolean().meta({ description: 'Whether a new key needs an owner' }),
  most_keys: z
    .int()
    .min(1)
    .max(1_000_000)
    .nullable()
    .meta({ description: 'The number of active keys that the tenant can have; null for any number', examples: [500] }),
  rotation_days: z
    .int()
    .min(1)
    .max(mostKeyDays)
    .meta({ description: 'The age in days at which a key is due for rotation', examples: [90] }),
  revoke_idle_days: z
    .int()
    .min(2)
    .max(mostKeyDays)
    .nullable()
    .meta({
      description:
        'The number of days without a use after which a key is revoked; null for never. Days count from when the rule is set. Event: `key.expiring`',
      examples: [180],
    }),
  audit_retention_days: z
    .int()
    .min(auditRetention.min)
    .max(auditRetention.max)
    .meta({ description: 'For how many days audit events are kept', examples: [400] }),
}

export const keyPolicySchema = z
  .object({
    max_key_days: z.int().min(1).meta({ description: 'The maximum lifetime of a key in days' }),
    required_addresses: z.array(z.string()).meta({
      description:
        'Networks. If the list is not empty, a key must have allowed addresses, each within one of these networks.',
      examples: [['203.0.113.0/24']],
    }),
    ...moreRules,
    changed_at: timestampSchema.nullable().meta({ description: 'Null if nobody has changed it' }),
    changed_by: z.object({ type: z.string(), id: z.string(), label: z.string() }).nullable(),
    version: z.int(),
  })
  .meta({ id: 'KeyPolicy' })
export type KeyPolicy = z.infer<typeof keyPolicySchema>

export const keyPolicyEventSchema = z
  .object({
    version: z.int().meta({ description: 'The version of the policy since this change' }),
    at: timestampSchema,
    actor: z.object({ type: z.string(), id: z.string(), label: z.string() }),
    max_key_days: z.int().min(1),
    required_addresses: z.array(z.string()),
    ...moreRules,
  })
  .meta({ id: 'KeyPolicyEvent' })
export type KeyPolicyEvent = z.infer<typeof keyPolicyEventSchema>

export const updateKeyPolicyBodySchema = z
  .strictObject({
    max_key_days: z.int().min(1).max(mostKeyDays).optional(),
    required_addresses: addressesSchema.optional(),
    forbid_wildcards: moreRules.forbid_wildcards.optional(),
    require_owner: moreRules.require_owner.optional(),
    most_keys: moreRules.most_keys.optional(),
    rotation_days: moreRules.rotation_days.optional(),
    revoke_idle_days: moreRules.revoke_idle_days.optional(),
    audit_retention_days: moreRules.audit_retention_days.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({
    id: 'UpdateKeyPolicy',
    minProperties: 1,
    description:
      'JSON Merge Patch (RFC 7396). All rules but `revoke_idle_days` and `audit_retention_days` apply only to keys that are created or rotated afterwards.',
    examples: [{ max_key_days: 90 }],
  })
