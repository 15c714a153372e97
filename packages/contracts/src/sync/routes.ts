import { z } from 'zod'
import { externalIdSchema, sentPersonRefSchema, uuidSchema, withNulls } from '../common.ts'
import { linesMediaType } from '../media-types.ts'
import { defineRoute } from '../route.ts'
import { hierarchyKeySchema, sentHierarchySchema } from '../universe/hierarchy.ts'
import { pushPeopleBodySchema } from '../universe/person.ts'
import { entityFields } from '../universe/routes.ts'
import { pushTestProceduresBodySchema } from '../universe/test-procedure.ts'
import { connectorRoutes } from './connector-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

export * from './connector-configs.ts'
export * from './connector.ts'
export * from './connector-routes.ts'
export * from './run.ts'
export * from './key-owner-mail.ts'
export * from './webhook.ts'
export * from './webhook-routes.ts'

export const pushedEntitySchema = z
  .strictObject({ external_id: externalIdSchema, parent_external_id: externalIdSchema.optional(), ...entityFields })
  .meta({ id: 'PushedEntity' })
export type PushedEntity = z.infer<typeof pushedEntitySchema>

export const sentEntitySchema = z
  .strictObject(
    withNulls({
      ...pushedEntitySchema.shape,
      owner: sentPersonRefSchema.optional(),
      audit_lead: sentPersonRefSchema.optional(),
      executive: sentPersonRefSchema.optional(),
    }),
  )
  .meta({ id: 'SentEntity' })

export const pushEntitiesBodySchema = z.array(sentEntitySchema).min(1).max(5000)

export const maxPushWarnings = 50

const pushWarningSchema = z
  .object({
    pointer: z
      .string()
      .meta({ description: 'JSON Pointer (RFC 6901) into the body', examples: ['/0/residual_risk/score'] }),
    code: z.enum(['residual_above_inherent', 'unusable_address']),
    detail: z.string(),
  })
  .meta({ id: 'PushWarning' })

export const pushResultSchema = z
  .object({
    run_id: uuidSchema,
    status: z.enum(['succeeded', 'failed']),
    counts: z.object({
      fetched: z.int(),
      created: z.int(),
      updated: z.int(),
      unchanged: z.int(),
      deactivated: z
        .int()
        .optional()
        .meta({ description: 'For a hierarchy: nodes that a full push no longer contained' }),
    }),
    warnings: z
      .array(pushWarningSchema)
      .max(maxPushWarnings)
      .optional()
      .meta({ description: `Doubtful values in accepted rows; the first ${maxPushWarnings}` }),
  })
  .meta({ id: 'PushResult' })
export type PushResult = z.infer<typeof pushResultSchema>

const base = { upstream: 'sync', tag: 'Sync', access: { kind: 'scope', scope: 'admin:sync' } } as const

const rowMediaTypes = ['application/json', linesMediaType] as const

export const pushEntities = defineRoute({
  ...base,
  id: 'sync.push-entities',
  method: 'POST',
  path: '/api/v1/sync/entities',
  summary: 'Push auditable entities',
  description:
    'All rows or none. The `external_id` identifies a row: new rows are created, different ones changed. A parent may be in the same push, in any order. A residual risk above the inherent one is accepted with a warning. An invalid e-mail address is left out with a warning.',
  body: pushEntitiesBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'The result of the push', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushOrgStructure = defineRoute({
  ...base,
  id: 'sync.push-org-structure',
  method: 'POST',
  path: '/api/v1/sync/org-structures/:key',
  summary: 'Push an organizational hierarchy',
  description:
    'All rows or none. The `node_key` identifies a node, and a parent can come after its child. Each push with changes creates a version, and earlier versions remain readable. An invalid e-mail address is left out with a warning.',
  params: z.strictObject({ key: hierarchyKeySchema }),
  body: sentHierarchySchema,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'The result of the push', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushTestProcedures = defineRoute({
  ...base,
  id: 'sync.push-test-procedures',
  method: 'POST',
  path: '/api/v1/sync/test-procedures',
  summary: 'Push test procedures',
  description:
    'All rows or none. The `external_id` identifies a row: new rows are created, different ones changed. An invalid e-mail address is left out with a warning.',
  body: pushTestProceduresBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'The result of the push', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushPeople = defineRoute({
  ...base,
  id: 'sync.push-people',
  method: 'POST',
  path: '/api/v1/sync/people',
  summary: 'Push people',
  description:
    'All rows or none. The `external_id` identifies a row: new rows are created, different ones changed. People are never deleted: push those who have left with `active: false`. An invalid e-mail address is left out with a warning.',
  body: pushPeopleBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'The result of the push', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const syncRoutes = [
  ...connectorRoutes,
  pushEntities,
  pushOrgStructure,
  pushTestProcedures,
  pushPeople,
  ...webhookRoutes,
] as const
