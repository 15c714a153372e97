import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { findingCountsSchema } from '../universe/finding-counts.ts'

export const maxCountedEntities = 1000

/** `POST /internal/v1/findings/open-counts` (universe → findings). */
export const openCountsBodySchema = z.strictObject({ entity_ids: z.array(uuidSchema).min(1).max(maxCountedEntities) })

export const openCountsAnswerSchema = z.strictObject({
  counts: z.array(z.strictObject({ entity_id: uuidSchema, ...findingCountsSchema.shape })),
})
export type OpenCountsAnswer = z.infer<typeof openCountsAnswerSchema>
