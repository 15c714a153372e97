import { z } from 'zod'
import { resourceAddressSchema, sentPersonPatchSchema, uuidSchema } from '../common.ts'
import { parseItemsSeparately } from '../parse-items-separately.ts'
import { problemSchema } from '../problem.ts'
import { defineRoute } from '../route.ts'
import { updateActionPlanBodySchema } from './action-plan.ts'
import { updateFindingBodySchema } from './finding.ts'
import { write } from './route-parts.ts'

export const maxBulkItems = 500

const maxBulkBytes = 8 * 1024 * 1024

const bulkMode = z
  .enum(['atomic', 'best_effort'])
  .default('atomic')
  .meta({ description: '`atomic`: all items or none. `best_effort`: each item separately' })
export type BulkMode = z.output<typeof bulkMode>

const addressing = {
  id: resourceAddressSchema.optional().meta({
    description:
      'The resource to change. Without it, the item changes the resource with its `external_id` or creates a new one',
  }),
  version: z
    .int()
    .min(1)
    .max(2_147_483_647)
    .optional()
    .meta({ description: 'The version to change, like If-Match of a single change; required with `id`' }),
}

/** A creation if the finding is new, otherwise a merge patch (RFC 7396). */
export const findingBulkItemSchema = updateFindingBodySchema
  .safeExtend({
    ...addressing,
    owner: sentPersonPatchSchema.nullable().optional(),
    status: z.enum(['draft', 'open']).optional().meta({
      description: 'The initial status; `open` also opens a draft. Other findings keep their status',
    }),
  })
  .meta({ id: 'FindingBulkItem', examples: [{ external_id: 'SAP-4711', title: 'Backups are not tested' }] })
export type FindingBulkItem = z.output<typeof findingBulkItemSchema>

/** A proposal if the plan is new, otherwise a merge patch (RFC 7396). */
export const actionPlanBulkItemSchema = updateActionPlanBodySchema
  .safeExtend({
    ...addressing,
    owner: sentPersonPatchSchema.optional(),
    finding: resourceAddressSchema
      .optional()
      .meta({ description: 'The finding that a new plan is for: an id, `ref:` or `ext:`' }),
  })
  .meta({ id: 'ActionPlanBulkItem', examples: [{ external_id: 'JIRA-12', status: 'in_progress' }] })
export type ActionPlanBulkItem = z.output<typeof actionPlanBulkItemSchema>

export const bulkResultSchema = z
  .object({
    index: z.int().min(0).meta({ description: 'Position of the item in the request' }),
    status: z.int().min(200).max(599).meta({
      description:
        'Like the status of a single request: 201 created, 200 changed or unchanged, otherwise the status of `problem`',
    }),
    id: uuidSchema.optional(),
    reference: z.string().optional(),
    version: z.int().optional(),
    etag: z.string().optional().meta({ description: 'For If-Match of the next change' }),
    problem: problemSchema.optional(),
    warnings: z
      .array(
        z
          .object({
            pointer: z.string().meta({
              description: 'JSON Pointer (RFC 6901) into the body',
              examples: ['/items/0/owner/email'],
            }),
            code: z.enum(['unusable_address']),
            detail: z.string(),
          })
          .meta({ id: 'BulkWarning' }),
      )
      .optional()
      .meta({ description: 'Values that were left out of the accepted item' }),
  })
  .meta({ id: 'BulkResult' })
export type BulkResult = z.infer<typeof bulkResultSchema>

const results = {
  200: { description: 'One result for each item, in the same order', schema: z.array(bulkResultSchema) },
}
const description =
  'Each item changes the resource with its `id` or `external_id`, or creates a new one. It can be a whole resource as it was read. Every item has its own result, and the response is 200 even if items are rejected. With `mode` `atomic`, the default, nothing is stored if an item is rejected; the valid items are then `not_applied` (424). An invalid e-mail address of an `owner` is left out with a warning; the address of a verifier or approver must be valid.'

export const bulkFindings = defineRoute({
  id: 'findings.bulk',
  method: 'POST',
  path: '/api/v1/findings/bulk',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Document and change up to 500 findings',
  description,
  body: z
    .strictObject({ mode: bulkMode, items: parseItemsSeparately(findingBulkItemSchema, maxBulkItems) })
    .meta({ id: 'BulkFindings' }),
  maxBodyBytes: maxBulkBytes,
  answers: results,
  problems: ['content_too_large', 'invalid_content', 'log_contradicted'],
})

export const bulkActionPlans = defineRoute({
  id: 'findings.bulk-action-plans',
  method: 'POST',
  path: '/api/v1/action-plans/bulk',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Propose and change up to 500 action plans',
  description,
  body: z
    .strictObject({ mode: bulkMode, items: parseItemsSeparately(actionPlanBulkItemSchema, maxBulkItems) })
    .meta({ id: 'BulkActionPlans' }),
  maxBodyBytes: maxBulkBytes,
  answers: results,
  problems: ['content_too_large', 'invalid_content', 'log_contradicted'],
})
