import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { maxCurrentRows } from './current-rows.ts'

/**
 * `POST /internal/v1/entities/sources` (sync → universe): which entities a connector, the caller of the request, brings now, or
 * has lost. Told at the end of a run, a page at a time; the same page again changes nothing.
 */
export const entitySourcesBodySchema = z.strictObject({
  run_id: uuidSchema,
  /** Rises with each telling of the connector; 409 for who comes after a later one. */
  telling: z.int().min(1).max(2_147_483_647),
  /** What is so of these entities since the telling before. Keys that no entity has are left out. */
  rows: z
    .array(z.strictObject({ external_id: externalIdSchema, missing_since: timestampSchema.nullable() }))
    .max(maxCurrentRows),
  /** The last page of a run that has read its source to the end: what is not missing was there. */
  complete: z.boolean(),
})
export type EntitySourcesBody = z.infer<typeof entitySourcesBodySchema>

/** How many entities read otherwise now. */
export const entitySourcesAnswerSchema = z.strictObject({ changed: z.int() })
export type EntitySourcesAnswer = z.infer<typeof entitySourcesAnswerSchema>
