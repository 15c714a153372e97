import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { entityStatuses, entityTypes } from '../universe/routes.ts'
import { actionPlanSchema } from './action-plan.ts'
import { findingSchema } from './finding.ts'
import { recommendationSchema } from './recommendation.ts'
import { logEntrySchema } from './tracker-log.ts'

export const expansions = ['recommendations', 'action_plans', 'log', 'entities'] as const
export type Expansion = (typeof expansions)[number]

export const expandedFindingSchema = findingSchema
  .extend({
    recommendations: z
      .array(recommendationSchema)
      .optional()
      .meta({ description: 'With `expand=recommendations`: the first 200; in a list the first 20' }),
    action_plans: z
      .array(actionPlanSchema)
      .optional()
      .meta({ description: 'With `expand=action_plans`: the first 200; in a list the first 20' }),
    log: z
      .array(logEntrySchema)
      .optional()
      .meta({ description: 'With `expand=log`: the last 200 entries; in a list the last 20' }),
    entities: z
      .array(
        z.object({
          id: uuidSchema,
          name: z.string(),
          reference: z.string().optional(),
          type: z.enum(entityTypes).optional(),
          status: z.enum(entityStatuses).optional(),
        }),
      )
      .optional()
      .meta({ description: 'With `expand=entities`: existing ones; without `read:universe` only id and name' }),
  })
  .meta({ id: 'ExpandedFinding' })
export type ExpandedFinding = z.infer<typeof expandedFindingSchema>
