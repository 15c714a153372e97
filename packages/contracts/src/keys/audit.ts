import { z } from 'zod'
import { momentSchema, text, timestampSchema, uuidSchema } from '../common.ts'
import { anyOf, pageQuery } from '../page.ts'
import { auditCategories } from './audit-actions.ts'

const outcomes = ['success', 'failure'] as const

const anyId = text(1, 1000)

export const auditEventSchema = z
  .object({
    id: uuidSchema,
    timestamp: timestampSchema.meta({ description: 'When it happened' }),
    category: z.enum(auditCategories).meta({ description: 'What kind of event it is' }),
    action: z.string().meta({ description: 'What happened', examples: ['key.revoked'] }),
    outcome: z.enum(outcomes).meta({ description: 'Whether it succeeded' }),
    reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it failed, or was done', examples: ['The laptop was lost'] }),
    actor_type: z
      .enum(['person', 'machine', 'key', 'operator', 'system', 'policy'])
      .meta({ description: 'Kind of the actor; `system` is Postern' }),
    actor_id: z
      .string()
      .nullable()
      .meta({ description: 'Id of the actor', examples: ['amara.osei'] }),
    actor_name: z
      .string()
      .nullable()
      .meta({ description: 'Name of the actor at that time', examples: ['Amara Osei'] }),
    resource_type: z.string().meta({ description: 'Kind of the resource', examples: ['key'] }),
    resource_id: z
      .string()
      .nullable()
      .meta({ description: 'Id of the resource', examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'] }),
    resource_name: z
      .string()
      .nullable()
      .meta({ description: 'Name of the resource at that time', examples: ['Nightly export'] }),
    source_ip: z
      .string()
      .nullable()
      .meta({ description: 'Address of the request', examples: ['192.0.2.10'] }),
    request_id: z
      .string()
      .nullable()
      .meta({ description: 'Id of the request', examples: ['8f14e45f'] }),
    position: z.string().meta({
      description: 'The value of `after` to continue after it',
      examples: ['42.019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
    }),
  })
  .meta({ id: 'AuditEvent' })
export type AuditEvent = z.infer<typeof auditEventSchema>

export const listAuditEventsQuery = z.strictObject({
  ...pageQuery,
  order: z.enum(['newest', 'oldest']).default('newest').meta({ description: 'Which events come first' }),
  after: z
    .string()
    .regex(/^[1-9][0-9]{0,17}\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, {
      message: 'must be the `position` of an event',
    })
    .optional()
    .meta({
      description: 'Events after this `position`',
      examples: ['42.019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
    }),
  id: uuidSchema.optional().meta({ description: 'The event with this id' }),
  since: momentSchema.optional().meta({ description: 'Events at this time or later' }),
  until: momentSchema.optional().meta({ description: 'Events before this time' }),
  category: anyOf(auditCategories).optional(),
  action: z
    .string()
    .regex(/^[a-z_]{1,40}\.[a-z_]{1,40}$/)
    .optional()
    .meta({ description: 'Events of this action', examples: ['key.revoked'] }),
  actor: anyId.optional().meta({ description: 'Events of the actor with this id', examples: ['amara.osei'] }),
  resource: anyId.optional().meta({
    description: 'Events of the resource with this id',
    examples: ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
  }),
  outcome: anyOf(outcomes).optional(),
})
export type AuditFilter = Omit<z.infer<typeof listAuditEventsQuery>, keyof typeof pageQuery>
