import { z } from 'zod'
import { conditional, memberIs, requiredMembers } from '../conditional-schema.ts'
import { line, momentSchema, timestampSchema, uuidSchema } from '../common.ts'
import { documentAs } from '../parse-items-separately.ts'
import { apiKeySchema, enforcementSchema, keyStates } from './api-key.ts'
import { healthReasons } from './health.ts'
import { maxBulkKeys } from './limits.ts'
import { ownerChoiceSchema } from './owner.ts'

const idsSchema = z
  .array(uuidSchema)
  .min(1)
  .max(maxBulkKeys)
  .refine((ids) => new Set(ids).size === ids.length, { message: 'must not repeat a key' })
  .meta({ uniqueItems: true, description: 'Ids of keys of this tenant' })

const healthListSchema = z.array(z.enum(healthReasons)).min(1).max(healthReasons.length)
/** Also accepts one reason without a list. Generators would make a second type of the same name from it. */
const healthFilterSchema = documentAs(
  z.preprocess((sent) => (typeof sent === 'string' ? [sent] : sent), healthListSchema),
  () => healthListSchema,
)

const filterSchema = z
  .strictObject({
    state: z.array(z.enum(keyStates)).min(1).max(keyStates.length).optional(),
    label: line(1, 100).optional().meta({ description: 'Part of the label, case-insensitive' }),
    owner: line(1, 255)
      .optional()
      .meta({
        description: 'The id of a person, or the e-mail address of a team',
        examples: ['amara.osei'],
      }),
    health: healthFilterSchema
      .optional()
      .meta({ description: 'Active keys with one of these reasons, as in the list' }),
    expires_before: momentSchema.optional().meta({ description: 'Keys that expire before this time' }),
    unused_since: momentSchema.optional().meta({ description: 'Keys without a request since this time' }),
  })
  .refine((filter) => Object.keys(filter).length > 0, { message: 'must have at least one condition' })
  .meta({ id: 'ApiKeyFilter', minProperties: 1 })
export type ApiKeyFilter = z.infer<typeof filterSchema>

export const previewBulkBodySchema = z
  .strictObject({ ids: idsSchema.optional(), filter: filterSchema.optional() })
  .refine((body) => (body.ids === undefined) !== (body.filter === undefined), {
    message: 'must have either `ids` or `filter`',
  })
  .meta({
    id: 'PreviewBulk',
    minProperties: 1,
    maxProperties: 1,
    description: `Which keys: by id or by filter, at most ${maxBulkKeys}`,
    examples: [{ filter: { owner: 'amara.osei', state: ['active'] } }],
  })

export const bulkPreviewSchema = z
  .object({
    version: z.string().meta({
      description: 'Names these keys with their settings. Send it with the change.',
      examples: ['5c1f0a7de92b44e08d3b6f1a2c9e7054'],
    }),
    active: z
      .int()
      .min(0)
      .meta({ description: 'Active keys among them', examples: [12] }),
    used_last_day: z
      .int()
      .min(0)
      .meta({ description: 'Keys with a request in the last 24 hours', examples: [2] }),
    keys: z.array(
      apiKeySchema
        .pick({ id: true, label: true, masked: true, state: true, owner: true, expires_at: true, last_used_at: true })
        .extend({
          used_last_day: z.boolean().meta({ description: 'Whether it had a request in the last 24 hours' }),
          recent_addresses: z.array(z.string()).meta({
            description: 'Addresses of these requests, newest first, at most 5',
            examples: [['203.0.113.7']],
          }),
        })
        .meta({ id: 'BulkPreviewKey' }),
    ),
  })
  .meta({ id: 'BulkPreview' })
export type BulkPreview = z.infer<typeof bulkPreviewSchema>

export const changeKeysBodySchema = z
  .strictObject({
    action: z.enum(['revoke', 'shorten', 'reassign', 'relabel']),
    ids: idsSchema,
    version: z
      .string()
      .min(1)
      .max(64)
      .meta({
        description: 'The `version` of the preview of exactly these keys',
        examples: ['5c1f0a7de92b44e08d3b6f1a2c9e7054'],
      }),
    reason: line(1, 500).optional().meta({ description: 'With `revoke` only: why, for the audit trail' }),
    expires_at: momentSchema.optional().meta({
      description: 'With `shorten` only: the latest expiry. Keys that expire earlier do not change.',
    }),
    owner: ownerChoiceSchema.optional().meta({ description: 'With `reassign` only: who answers for the keys' }),
    label: line(1, 100).optional().meta({ description: 'With `relabel` only: what the keys are for' }),
  })
  .refine((body) => (body.action === 'shorten') === (body.expires_at !== undefined), {
    path: ['expires_at'],
    message: '`expires_at` requires `action: shorten`, and the reverse',
  })
  .refine((body) => (body.action === 'reassign') === (body.owner !== undefined), {
    path: ['owner'],
    message: '`owner` requires `action: reassign`, and the reverse',
  })
  .refine((body) => (body.action === 'relabel') === (body.label !== undefined), {
    path: ['label'],
    message: '`label` requires `action: relabel`, and the reverse',
  })
  .refine((body) => body.action === 'revoke' || body.reason === undefined, {
    path: ['reason'],
    message: '`reason` requires `action: revoke`',
  })
  .meta({
    id: 'ChangeKeys',
    examples: [
      {
        action: 'revoke',
        ids: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
        version: '5c1f0a7de92b44e08d3b6f1a2c9e7054',
        reason: 'Left the company',
      },
    ],
    allOf: [
      conditional(memberIs('action', 'shorten'), requiredMembers('expires_at'), { not: requiredMembers('expires_at') }),
      conditional(memberIs('action', 'reassign'), requiredMembers('owner'), { not: requiredMembers('owner') }),
      conditional(memberIs('action', 'relabel'), requiredMembers('label'), { not: requiredMembers('label') }),
      conditional(requiredMembers('reason'), memberIs('action', 'revoke')),
    ],
  })
export type ChangeKeys = z.infer<typeof changeKeysBodySchema>

export const bulkReceiptSchema = z
  .object({
    id: uuidSchema.meta({ description: 'In the audit event of each key that changed, as `bulk`' }),
    action: z.enum(['revoke', 'shorten', 'reassign', 'relabel']),
    changed: z
      .int()
      .min(0)
      .meta({ description: 'Keys that changed; the others already had these values', examples: [12] }),
    enforcement: enforcementSchema.nullable(),
    keys: z.array(
      apiKeySchema
        .pick({ id: true, label: true, masked: true, state: true, expires_at: true, version: true })
        .extend({
          changed: z.boolean().meta({ description: 'Whether this call changed it' }),
          enforced_at: timestampSchema.nullable().meta({
            description: 'When every gateway enforced it; null if gateways are not affected',
          }),
        })
        .meta({ id: 'BulkReceiptKey' }),
    ),
  })
  .meta({ id: 'BulkReceipt' })
export type BulkReceipt = z.infer<typeof bulkReceiptSchema>
