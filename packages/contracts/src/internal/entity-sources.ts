import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { maxCurrentRows } from './current-rows.ts'

/** `POST /internal/v1/entities/sources` (sync → universe): which entities a connector provides or lost. Idempotent. */
export const entitySourcesBodySchema = z.strictObject({
  /** Increases with each report; a late one gets 409. */
  telling: z.int().min(1).max(2_147_483_647),
  /** Changes since the previous report. Unknown keys are ignored. */
  rows: z
    .array(z.strictObject({ external_id: externalIdSchema, missing_since: timestampSchema.nullable() }))
    .max(maxCurrentRows),
  /** Only on the last page of a complete run: when all entities that are not missing were present. */
  read: z.strictObject({ run_id: uuidSchema, at: timestampSchema }).nullable(),
  /** The connector provides nothing until its next report. */
  retired: z.boolean(),
})
export type EntitySourcesBody = z.infer<typeof entitySourcesBodySchema>

export const entitySourcesAnswerSchema = z.strictObject({ changed: z.int() })
export type EntitySourcesAnswer = z.infer<typeof entitySourcesAnswerSchema>
