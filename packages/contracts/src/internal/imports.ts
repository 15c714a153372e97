import { z } from 'zod'
import { uuidSchema } from '../common.ts'

const attemptSchema = z.int().min(1).max(2_147_483_647)

/**
 * Which batch of a run's changes a push holds. `sequence` rises from batch to batch. The universe applies each batch once, and rejects
 * the batches of an earlier attempt at the run. Pushes that belong to no run of a connector have no batch.
 */
export const importBatchSchema = z.strictObject({
  attempt: attemptSchema,
  sequence: z.int().min(1).max(2_147_483_647),
})
export type ImportBatch = z.infer<typeof importBatchSchema>

/**
 * `POST /internal/v1/imports/stop` (sync → universe): which batches of a run are applied. Waits for a batch that is being applied, and
 * rejects every later batch of this attempt.
 */
export const stopImportBodySchema = z.strictObject({ run_id: uuidSchema, attempt: attemptSchema })
export type StopImportBody = z.infer<typeof stopImportBodySchema>

/** The sequence of the last applied batch; 0 if none is applied. */
export const stopImportAnswerSchema = z.strictObject({ sequence: z.int().min(0) })
export type StopImportAnswer = z.infer<typeof stopImportAnswerSchema>
