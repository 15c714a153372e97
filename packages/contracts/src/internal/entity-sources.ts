import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { maxCurrentRows } from './current-rows.ts'

/**
 * `POST /internal/v1/entities/sources` (sync → universe): which entities a connector, the caller of the request, brings now, or
 * has lost. Told at the end of a run, a page at a time, and when the connector is retired; the same page again changes nothing.
 */
export const entitySourcesBodySchema = z.strictObject({
  /** Rises with each telling of the connector; 409 for who comes after a later one. */
  telling: z.int().min(1).max(2_147_483_647),
  /** What is so of these entities since the telling before. Keys that no entity has are left out. */
  rows: z
    .array(z.strictObject({ external_id: externalIdSchema, missing_since: timestampSchema.nullable() }))
    .max(maxCurrentRows),
  /** Of the last page of a run that has read its source to the end: what is not missing was there at that time. */
  read: z.strictObject({ run_id: uuidSchema, at: timestampSchema }).nullable(),
  /** Whether the connector brings nothing any more, and is no source of anything; until it tells something else. */
  retired: z.boolean(),
})
export type EntitySourcesBody = z.infer<typeof entitySourcesBodySchema>

/** How many entities read otherwise now. */
export const entitySourcesAnswerSchema = z.strictObject({ changed: z.int() })
export type EntitySourcesAnswer = z.infer<typeof entitySourcesAnswerSchema>
