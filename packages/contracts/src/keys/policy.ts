import { z } from 'zod'
import { timestampSchema } from '../common.ts'
import { addressesSchema } from './api-key.ts'
import { mostKeyDays } from './limits.ts'

/** What the tenant demands of every key that is made. */
export const keyPolicySchema = z
  .object({
    max_key_days: z.int().min(1).meta({ description: 'Longest life of a key, in days' }),
    required_addresses: z.array(z.string()).meta({
      description:
        'Networks. Where there is one, a key must name allowed addresses, each within one of these. Empty: it need not.',
      examples: [['203.0.113.0/24']],
    }),
    changed_at: timestampSchema.nullable().meta({ description: 'Null as long as nobody has changed it' }),
    changed_by: z.object({ type: z.string(), id: z.string(), label: z.string() }).nullable(),
    version: z.int(),
  })
  .meta({ id: 'KeyPolicy' })
export type KeyPolicy = z.infer<typeof keyPolicySchema>

/** A change of the policy, with what it demanded from then on. */
export const keyPolicyEventSchema = z
  .object({
    version: z.int().meta({ description: 'Of the policy since this change' }),
    at: timestampSchema,
    actor: z.object({ type: z.string(), id: z.string(), label: z.string() }),
    max_key_days: z.int().min(1),
    required_addresses: z.array(z.string()),
  })
  .meta({ id: 'KeyPolicyEvent' })
export type KeyPolicyEvent = z.infer<typeof keyPolicyEventSchema>

export const updateKeyPolicyBodySchema = z
  .strictObject({
    max_key_days: z.int().min(1).max(mostKeyDays).optional(),
    required_addresses: addressesSchema.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({
    id: 'UpdateKeyPolicy',
    minProperties: 1,
    description: 'JSON Merge Patch (RFC 7396). It binds keys that are made or rotated from then on, and no others.',
    examples: [{ max_key_days: 90 }],
  })
