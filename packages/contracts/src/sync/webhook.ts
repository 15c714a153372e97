import { z } from 'zod'
import { createdBySchema, line, lines, timestampSchema, uuidSchema } from '../common.ts'

/** What each type of event means, and the path of its resource. */
export const webhookEventTypes = {
  'key.created': { meaning: 'A key was generated', path: '/api/v1/api-keys/{id}' },
  'key.rotated': { meaning: 'A key was replaced; it works until its overlap ends', path: '/api/v1/api-keys/{id}' },
  'key.changed': { meaning: 'A key was edited or narrowed', path: '/api/v1/api-keys/{id}' },
  'key.expiring': {
    meaning: 'A key expires, or will be revoked as idle, in 30, 14, 7 or 1 days',
    path: '/api/v1/api-keys/{id}',
  },
  'key.expired': { meaning: 'A key has expired', path: '/api/v1/api-keys/{id}' },
  'key.revoked': { meaning: 'A key was revoked', path: '/api/v1/api-keys/{id}' },
  'key.leaked': { meaning: 'A key was reported as leaked, and revoked', path: '/api/v1/api-keys/{id}' },
  'key.used_from_new_address': { meaning: 'A key was used from a new address', path: '/api/v1/api-keys/{id}' },
  'key.used_after_revocation': { meaning: 'A revoked key was rejected', path: '/api/v1/api-keys/{id}' },
  'finding.created': { meaning: 'A finding was documented', path: '/api/v1/findings/{id}' },
  'finding.updated': { meaning: 'A finding was changed', path: '/api/v1/findings/{id}' },
  'finding.became_overdue': { meaning: 'The target date of a finding has passed', path: '/api/v1/findings/{id}' },
  'action_plan.created': { meaning: 'An action plan was created', path: '/api/v1/action-plans/{id}' },
  'action_plan.updated': { meaning: 'An action plan was changed', path: '/api/v1/action-plans/{id}' },
  'action_plan.became_overdue': { meaning: 'The due date of a plan has passed', path: '/api/v1/action-plans/{id}' },
  'evidence.uploaded': { meaning: 'A file was stored', path: '/api/v1/evidence-files/{id}' },
  'evidence.quarantined': { meaning: 'The scanner found malware in a file', path: '/api/v1/evidence-files/{id}' },
  'sync_run.finished': { meaning: 'A run ended', path: '/api/v1/sync-runs/{id}' },
  'sync_run.needs_approval': { meaning: 'A run waits for approval', path: '/api/v1/sync-runs/{id}' },
  'audit.key': { meaning: 'The audit feed has an event about keys', path: '/api/v1/audit-events?id={id}' },
  'audit.key_policy': {
    meaning: 'The audit feed has an event about the key policy',
    path: '/api/v1/audit-events?id={id}',
  },
  'audit.evidence': {
    meaning: 'The audit feed has an event about evidence in custody',
    path: '/api/v1/audit-events?id={id}',
  },
  'audit.connector': { meaning: 'The audit feed has an event about connectors', path: '/api/v1/audit-events?id={id}' },
  'audit.webhook': {
    meaning: 'The audit feed has an event about webhook endpoints',
    path: '/api/v1/audit-events?id={id}',
  },
  'audit.directory': {
    meaning: 'The audit feed has an event about people of the directory',
    path: '/api/v1/audit-events?id={id}',
  },
  'audit.tenant': { meaning: 'The audit feed has an event about the tenant', path: '/api/v1/audit-events?id={id}' },
  'audit.sign_in': { meaning: 'The audit feed has an event about a sign-in', path: '/api/v1/audit-events?id={id}' },
  'webhook.paused': { meaning: 'An endpoint was paused', path: '/api/v1/webhooks/{id}' },
  'webhook.test': { meaning: 'An administrator tests the endpoint', path: '/api/v1/webhooks/{id}' },
} as const satisfies Readonly<Record<string, { readonly meaning: string; readonly path: string }>>
export type WebhookEventType = keyof typeof webhookEventTypes

const typeNames = Object.keys(webhookEventTypes)
const groups = [...new Set(typeNames.map((name) => name.slice(0, name.indexOf('.'))))].filter(
  (group) => group !== 'webhook',
)

export const webhookSubscriptions: readonly string[] = [
  '*',
  ...groups.map((group) => `${group}.*`),
  ...typeNames.filter((name) => name !== 'webhook.test'),
]

/** Whether an endpoint with these subscriptions gets the type. `*` leaves `audit.*` out, which repeats other events. */
export function isSubscribed(subscriptions: readonly string[], type: string): boolean {
  const group = type.slice(0, type.indexOf('.'))
  const all = group === 'audit' ? [] : ['*']
  return [...all, `${group}.*`, type].some((name) => subscriptions.includes(name))
}

/** The body of a request to an endpoint. */
export const webhookPayloadSchema = z.strictObject({
  type: z.enum(typeNames),
  timestamp: timestampSchema,
  data: z.strictObject({ id: uuidSchema, version: z.int().nullable(), url: z.string() }),
})

/** In days: how long a failing endpoint is retried, and how long deliveries are listed. */
export const webhookRetryDays = 3
export const webhookLogDays = 30

const subscriptionsSchema = z
  .array(z.enum(webhookSubscriptions))
  .min(1)
  .max(50)
  .meta({
    id: 'WebhookEvents',
    description: 'The types of events to send: `*` for all, `key.*` for a group',
    examples: [['key.*']],
  })

const urlSchema = z
  .string()
  .min(1)
  .max(2000)
  .meta({
    description:
      'An `https` URL at a public address, or in a network that the platform lists. Redirects are not followed. Or `mailto:` with up to ten addresses, if the platform has a mail server. `mailto:{key_owner}` mails the owner of each key: the contact address of a team, the address of a person in the directory. Its `events` can be `key.expiring`, `key.expired`, `key.leaked` and `key.revoked`.',
    examples: ['https://hooks.harbourline.example/postern'],
  })

const caSchema = lines(1, 20_000)
  .nullable()
  .meta({ description: 'Certificates (PEM) to trust instead of the public ones; null for the public ones' })

const descriptionSchema = line(0, 255).meta({ description: 'What the endpoint is for', examples: ['Ticket bridge'] })

export const webhookSchema = z
  .object({
    id: uuidSchema,
    url: z.string(),
    description: z.string(),
    events: z.array(z.string()).meta({ examples: [['key.*']] }),
    ca: z
      .string()
      .nullable()
      .meta({ examples: [null] }),
    state: z.enum(['enabled', 'disabled', 'paused']).meta({
      description: `\`paused\`: Postern stopped after ${webhookRetryDays} days without a successful delivery. Enable the endpoint again once it works.`,
    }),
    paused_at: timestampSchema.nullable(),
    failing_since: timestampSchema.nullable().meta({ description: 'Null if the last delivery succeeded' }),
    last_error: z
      .string()
      .nullable()
      .meta({
        description: 'Why the last attempt failed; null if it succeeded',
        examples: ['The receiver answered 500.'],
      }),
    last_delivered_at: timestampSchema.nullable(),
    pending: z.int().meta({ description: 'Deliveries that wait, at most 1000', examples: [0] }),
    secret_expires_at: timestampSchema.nullable().meta({
      description: 'Until when deliveries are also signed with the previous secret; null outside of a rotation',
    }),
    created_at: timestampSchema,
    created_by: createdBySchema,
    updated_at: timestampSchema,
    version: z.int(),
    history: z
      .array(
        z.object({
          type: z.enum(['created', 'changed', 'secret_rotated', 'sent', 'paused', 'deleted']),
          at: timestampSchema,
          actor: createdBySchema,
        }),
      )
      .meta({ description: 'The last 20 changes, newest first' }),
    secret: z
      .string()
      .optional()
      .meta({
        description: 'Verifies signatures. Only the responses that create or replace it contain it.',
        examples: ['whsec_…'],
      }),
  })
  .meta({ id: 'Webhook' })
export type Webhook = z.infer<typeof webhookSchema>

/** The response that creates or rotates the secret. */
export const createdWebhookSchema = webhookSchema.required({ secret: true })

export const createWebhookBodySchema = z
  .strictObject({
    url: urlSchema,
    events: subscriptionsSchema,
    description: descriptionSchema.default(''),
    ca: caSchema.default(null),
  })
  .meta({ id: 'CreateWebhook' })

export const updateWebhookBodySchema = z
  .strictObject({
    url: urlSchema.optional(),
    events: subscriptionsSchema.optional(),
    description: descriptionSchema.optional(),
    ca: caSchema.optional(),
    state: z.enum(['enabled', 'disabled']).optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({
    id: 'UpdateWebhook',
    minProperties: 1,
    description: 'JSON Merge Patch (RFC 7396)',
    examples: [{ state: 'enabled' }],
  })

export const mostOverlapHours = 168

export const rotateWebhookSecretBodySchema = z
  .strictObject({
    overlap_hours: z
      .int()
      .min(0)
      .max(mostOverlapHours)
      .default(24)
      .meta({ description: 'How long deliveries are also signed with the previous secret' }),
  })
  .meta({ id: 'RotateWebhookSecret' })

export const webhookDeliveryStates = z.enum(['pending', 'delivered', 'failed', 'skipped']).meta({
  description: '`failed`: given up. `skipped`: sent to nobody, for the reason in `error`',
  examples: ['failed'],
})

export const webhookDeliverySchema = z
  .object({
    id: uuidSchema.meta({ description: 'The header `webhook-id`; the same for every attempt' }),
    type: z.string().meta({ examples: ['key.revoked'] }),
    resource_id: uuidSchema,
    occurred_at: timestampSchema,
    state: webhookDeliveryStates,
    attempts: z.int(),
    last_attempt_at: timestampSchema.nullable(),
    next_attempt_at: timestampSchema.nullable(),
    status: z.int().nullable().meta({ description: 'The status of the last response; null without a response' }),
    duration_ms: z.int().nullable(),
    error: z.string().nullable(),
    answer: z
      .string()
      .nullable()
      .meta({ description: 'The first 1000 bytes of the last response', examples: ['Out of memory'] }),
  })
  .meta({ id: 'WebhookDelivery' })
export type WebhookDelivery = z.infer<typeof webhookDeliverySchema>

export type WebhookTrailType = Webhook['history'][number]['type']

export const sendWebhookBodySchema = z
  .strictObject({
    delivery_id: uuidSchema.optional().meta({ description: 'The delivery to send again; without it, a test event' }),
  })
  .meta({ id: 'SendWebhook' })

export const webhookParams = z.strictObject({ id: uuidSchema })
