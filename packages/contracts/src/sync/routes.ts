import { z } from 'zod'
import { externalIdSchema, sentPersonRefSchema, uuidSchema } from '../common.ts'
import { linesMediaType } from '../media-types.ts'
import { defineRoute } from '../route.ts'
import { hierarchyKeySchema, sentHierarchySchema } from '../universe/hierarchy.ts'
import { pushPeopleBodySchema } from '../universe/person.ts'
import { entityFields } from '../universe/routes.ts'
import { pushTestProceduresBodySchema } from '../universe/test-procedure.ts'
import { connectorRoutes } from './connector-routes.ts'

export * from './connector.ts'
export * from './connector-routes.ts'
export * from './run.ts'

/** One row of a push: the source's own key, its parent's key if any, and the entity's fields. */
export const pushedEntitySchema = z
  .strictObject({ external_id: externalIdSchema, parent_external_id: externalIdSchema.optional(), ...entityFields })
  .meta({ id: 'PushedEntity' })
export type PushedEntity = z.infer<typeof pushedEntitySchema>

/** A row as it is sent. */
export const sentEntitySchema = pushedEntitySchema
  .extend({
    owner: sentPersonRefSchema.optional(),
    audit_lead: sentPersonRefSchema.optional(),
    executive: sentPersonRefSchema.optional(),
  })
  .meta({ id: 'SentEntity' })

export const pushEntitiesBodySchema = z.array(sentEntitySchema).min(1).max(5000)

/** Most warnings that one answer lists. */
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
        .meta({ description: 'Of a hierarchy: nodes that a full push did not hold any more' }),
    }),
    warnings: z
      .array(pushWarningSchema)
      .max(maxPushWarnings)
      .optional()
      .meta({ description: `What is doubtful in rows that were taken in all the same; the first ${maxPushWarnings}` }),
  })
  .meta({ id: 'PushResult' })
export type PushResult = z.infer<typeof pushResultSchema>

const base = { upstream: 'sync', tag: 'Sync', access: { kind: 'scope', scope: 'admin:sync' } } as const

/** Rows as a list, or a line each. */
const rowMediaTypes = ['application/json', linesMediaType] as const

export const pushEntities = defineRoute({
  ...base,
  id: 'sync.push-entities',
  method: 'POST',
  path: '/api/v1/sync/entities',
  summary: 'Push auditable entities',
  description:
    'All rows or none. A row is matched by its `external_id`: made when new, changed when it differs. A parent may be in the same push, in any order. A residual risk above the inherent one is accepted with a warning. An e-mail address that cannot be used is left out with a warning.',
  body: pushEntitiesBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'What the push did', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushOrgStructure = defineRoute({
  ...base,
  id: 'sync.push-org-structure',
  method: 'POST',
  path: '/api/v1/sync/org-structures/:key',
  summary: 'Push an organizational hierarchy',
  description:
    'All rows or none. A node is matched by its `node_key`, a parent may come after its child. Each push that changes something makes a version, and the versions before stay readable. An e-mail address that cannot be used is left out with a warning.',
  params: z.strictObject({ key: hierarchyKeySchema }),
  body: sentHierarchySchema,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'What the push did', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushTestProcedures = defineRoute({
  ...base,
  id: 'sync.push-test-procedures',
  method: 'POST',
  path: '/api/v1/sync/test-procedures',
  summary: 'Push test procedures',
  description:
    'All rows or none. A row is matched by its `external_id`: made when new, changed when it differs. An e-mail address that cannot be used is left out with a warning.',
  body: pushTestProceduresBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'What the push did', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const pushPeople = defineRoute({
  ...base,
  id: 'sync.push-people',
  method: 'POST',
  path: '/api/v1/sync/people',
  summary: 'Push people',
  description:
    'All rows or none. A row is matched by its `external_id`: made when new, changed when it differs. Nobody is deleted: who has left is pushed with `active: false`. An e-mail address that cannot be used is left out with a warning.',
  body: pushPeopleBodySchema,
  bodyMediaTypes: rowMediaTypes,
  maxBodyBytes: 16 * 1024 * 1024,
  answers: { 200: { description: 'What the push did', schema: pushResultSchema } },
  problems: ['invalid_content', 'conflict', 'content_too_large'],
})

export const syncRoutes = [...connectorRoutes, pushEntities, pushOrgStructure, pushTestProcedures, pushPeople] as const
