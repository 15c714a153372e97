import { z } from 'zod'
import { line, lines, momentSchema, optionalOrNull, timestampSchema, uuidSchema } from '../common.ts'
import { pageQuery, anyOf } from '../page.ts'
import { conditional, memberIs, requiredMembers } from '../conditional-schema.ts'
import { grantableScopes } from '../scope.ts'
import { healthReasonList, healthReasons } from './health.ts'
import { keyOwnerSchema, ownerChoiceSchema, sentOwnerSchema } from './owner.ts'

export const keyStates = ['active', 'expired', 'revoked'] as const
export type KeyState = (typeof keyStates)[number]

export const expiryChoices = ['30d', '90d', '1y', 'custom'] as const

export const grantableScopeSchema = z.enum(grantableScopes)

const scopesSchema = z
  .array(grantableScopeSchema)
  .min(1)
  .max(grantableScopes.length)
  .refine((scopes) => new Set(scopes).size === scopes.length, { message: 'must not repeat a scope' })
  .meta({ uniqueItems: true, examples: [['read:findings']] })

export const addressForms = 'must be an address or a network, as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/32'

/** RFC 4291 §2.5.5.1. */
export const deprecatedAddress = 'must not be within ::/96, the deprecated IPv6 form of IPv4. Write the IPv4 address'

export const cidrSchema = z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()], { message: addressForms }).meta({
  description:
    'IPv4 or IPv6 range in CIDR notation, or one address. Ranges within ::/96, the deprecated IPv6 form of IPv4, are rejected, except ::/128 and ::1/128',
  examples: ['203.0.113.0/24'],
})

export const addressesSchema = z.array(cidrSchema).max(100)

export const apiKeySchema = z
  .object({
    id: uuidSchema,
    label: z.string(),
    note: z.string().nullable(),
    owner: keyOwnerSchema
      .nullable()
      .meta({ description: 'Who answers for the key. Null only for keys that an operator created without one.' }),
    masked: z.string().meta({ description: '`•••••` and the last four characters', examples: ['•••••x7Qp'] }),
    state: z.enum(keyStates),
    scopes: z.array(grantableScopeSchema),
    allowed_addresses: z.array(z.string()),
    created_by: z.object({ type: z.string(), id: z.string(), label: z.string() }),
    created_at: timestampSchema,
    expires_at: timestampSchema,
    revoked_at: timestampSchema.nullable(),
    revoked_by: z.object({ type: z.string(), id: z.string(), label: z.string() }).nullable(),
    revoke_reason: z.string().nullable(),
    last_used_at: timestampSchema
      .nullable()
      .meta({ description: 'When a request was last accepted, within 60 seconds. Rejected requests do not count.' }),
    last_refused_at: timestampSchema
      .nullable()
      .meta({ description: 'When a request was last rejected for any reason, within 60 seconds' }),
    rotated_from: uuidSchema.nullable(),
    pending_overlap: z.string().nullable(),
    version: z.int(),
  })
  .meta({ id: 'ApiKey' })
export type ApiKey = z.infer<typeof apiKeySchema>

export const createdApiKeySchema = apiKeySchema
  .extend({ key: z.string().meta({ description: 'The key. Only this response contains it.' }) })
  .meta({ id: 'CreatedApiKey' })
export type CreatedApiKey = z.infer<typeof createdApiKeySchema>

export const createApiKeyBodySchema = z
  .strictObject({
    label: line(1, 100),
    expires_in: z.enum(expiryChoices),
    expires_at: momentSchema
      .optional()
      .meta({ description: 'With `expires_in: custom` only: in the future, at most the tenant maximum ahead' }),
    scopes: scopesSchema,
    allowed_addresses: addressesSchema.default([]),
    note: optionalOrNull(lines(1, 1000)),
    owner: optionalOrNull(sentOwnerSchema).meta({ description: 'Default: the person who creates the key' }),
  })
  .refine((body) => (body.expires_in === 'custom') === (body.expires_at !== undefined), {
    path: ['expires_at'],
    message: '`expires_at` requires `expires_in: custom`, and the reverse',
  })
  .meta({
    id: 'CreateApiKey',
    ...conditional(memberIs('expires_in', 'custom'), requiredMembers('expires_at'), {
      not: requiredMembers('expires_at'),
    }),
  })

export const updateApiKeyBodySchema = z
  .strictObject({
    label: line(1, 100).optional(),
    note: lines(1, 1000).nullable().optional().meta({ description: 'Null removes it' }),
    owner: ownerChoiceSchema.optional(),
    scopes: scopesSchema.optional(),
    allowed_addresses: addressesSchema.optional(),
    expires_at: momentSchema.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({
    id: 'UpdateApiKey',
    minProperties: 1,
    description:
      'JSON Merge Patch (RFC 7396): label, note and owner change freely; scopes, addresses and expiry may only become narrower. To widen a key, create another one',
    examples: [{ label: 'Nightly export' }],
  })

export const revokeApiKeyBodySchema = z.strictObject({ reason: line(1, 500).optional() }).meta({ id: 'RevokeApiKey' })

export const enforcementSchema = z
  .object({
    gateways: z.int().min(0).meta({ description: 'Gateways that could accept the key when it was revoked' }),
    confirmed: z.int().min(0).meta({ description: 'Gateways that confirmed that they reject it' }),
    fenced: z
      .int()
      .min(0)
      .meta({ description: 'Gateways whose lease expired: they reject everything until they have caught up' }),
    waited_ms: z.number().min(0),
  })
  .meta({
    id: 'Enforcement',
    description:
      'How the change took effect. Every request that arrives after this response is rejected. Earlier requests end within two seconds: downloads and event streams are cut, uploads are rejected and nothing of them is stored.',
  })
export type Enforcement = z.infer<typeof enforcementSchema>

export const revokedApiKeySchema = apiKeySchema
  .extend({ enforcement: enforcementSchema.nullable() })
  .meta({ id: 'RevokedApiKey' })

export const rotateApiKeyBodySchema = z
  .strictObject({
    overlap: z
      .string()
      .regex(/^(0|[1-9][0-9]{0,3})(s|m|h|d)$/)
      .default('24h')
      .meta({ description: 'How long the old key remains valid: 0s to 7d', examples: ['24h'] }),
    overlap_from: z.enum(['rotation', 'first_use']).default('rotation').meta({
      description:
        '`first_use`: the overlap begins within a minute of the first use of the new key. Until then, the old one keeps its expiry',
    }),
    expires_in: z
      .enum(['30d', '90d', '1y'])
      .optional()
      .meta({ description: 'Default: the original lifetime of the old key' }),
    scopes: scopesSchema.optional().meta({ description: 'For a narrower key. Default: the scopes of the old key' }),
  })
  .meta({ id: 'RotateApiKey' })

export const apiKeyEventSchema = z
  .object({
    id: uuidSchema,
    type: z.enum([
      'created',
      'rotated',
      'updated',
      'revoked',
      'denied_expired',
      'denied_revoked',
      'denied_address',
      'denied_scope',
      'used_from_new_address',
    ]),
    at: timestampSchema,
    actor: z.object({ type: z.string(), id: z.string(), label: z.string() }).nullable(),
    address: z.string().nullable().meta({ description: 'The address of the attempts that the event counts' }),
    detail: z.record(z.string(), z.unknown()).meta({
      description:
        'For a rejection: the `attempts` from `address`. Each address has its own event, at most ten at a time. Further addresses share an event with the `address` null and the number `other_addresses`.',
    }),
  })
  .meta({ id: 'ApiKeyEvent' })
export type ApiKeyEvent = z.infer<typeof apiKeyEventSchema>

export const listApiKeysQuery = z.strictObject({
  ...pageQuery,
  state: anyOf(keyStates).optional(),
  scope: anyOf(grantableScopes).optional().meta({
    description: 'Keys with one of these scopes or a wildcard that includes it',
  }),
  label: line(1, 100).optional().meta({ description: 'Part of the label, case-insensitive' }),
  owner: line(1, 255)
    .optional()
    .meta({
      description: 'Keys of this owner: the id of a person, or the e-mail address of a team',
      examples: ['amara.osei'],
    }),
  health: anyOf(healthReasons)
    .optional()
    .meta({ description: `Active keys with one of these reasons. ${healthReasonList}. Accurate to a minute` }),
  expires_before: momentSchema.optional().meta({ description: 'Keys that expire before this time' }),
  unused_since: momentSchema.optional().meta({ description: 'Keys without a request since this time' }),
})

export const keyIdParams = z.strictObject({ id: uuidSchema })
