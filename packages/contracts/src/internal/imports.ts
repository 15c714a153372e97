import { z } from 'zod'
import { uuidSchema } from '../common.ts'

const attemptSchema = z.int().min(1).max(2_147_483_647)

/**
 * `sequence` rises from batch to batch. The universe applies each batch once and rejects those of earlier attempts.
 * Only runs have batches.
 */
export const importBatchSchema = z.strictObject({
  attempt: attemptSchema,
  sequence: z.int().min(1).max(2_147_483_647),
})
export type ImportBatch = z.infer<typeof importBatchSchema>

/**
 * `POST /internal/v1/imports/stop` (sync → universe): waits for the current batch and rejects later ones of this
 * attempt.
 */
export const stopImportBodySchema = z.strictObject({ run_id: uuidSchema, attempt: attemptSchema })
export type StopImportBody = z.infer<typeof stopImportBodySchema>

/** The last applied batch, or 0. */
export const stopImportAnswerSchema = z.strictObject({ sequence: z.int().min(0) })
export type StopImportAnswer = z.infer<typeof stopImportAnswerSchema>
