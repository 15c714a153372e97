import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { maxCurrentRows } from './current-rows.ts'

/**
 * `POST /internal/v1/entities/sources` (sync → universe): reports which entities the calling connector provides or
 * lost, in pages at the end of a run and when it is retired. Repeating a page changes nothing.
 */
export const entitySourcesBodySchema = z.strictObject({
  /** Increases with each report of the connector. A late report gets 409. */
  telling: z.int().min(1).max(2_147_483_647),
  /** The changes since the previous report. Unknown keys are ignored. */
  rows: z
    .array(z.strictObject({ external_id: externalIdSchema, missing_since: timestampSchema.nullable() }))
    .max(maxCurrentRows),
  /** On the last page of a run that read its source to the end: when all entities that are not missing were present. */
  read: z.strictObject({ run_id: uuidSchema, at: timestampSchema }).nullable(),
  /** Whether the connector no longer provides anything, until its next report. */
  retired: z.boolean(),
})
export type EntitySourcesBody = z.infer<typeof entitySourcesBodySchema>

/** The number of changed entities. */
export const entitySourcesAnswerSchema = z.strictObject({ changed: z.int() })
export type EntitySourcesAnswer = z.infer<typeof entitySourcesAnswerSchema>
