import { z } from 'zod'
import { externalIdSchema } from '../common.ts'
import { hierarchyKeySchema } from '../universe/hierarchy.ts'

const keys = z.array(externalIdSchema).min(1).max(100)

/** `POST /internal/v1/current-rows` (sync → universe). */
export const currentRowsBodySchema = z.union([
  z.strictObject({
    dataset: z.literal('people'),
    keys,
    /** Waits for pushes in progress, or returns 503. */
    behind_pushes: z.literal(true).optional(),
  }),
  z.strictObject({ dataset: z.literal('org_structure'), hierarchy: hierarchyKeySchema, keys }),
])
export type CurrentRowsBody = z.infer<typeof currentRowsBodySchema>

/** The rows in the format of a push, without empty members and defaults. */
export const currentRowsAnswerSchema = z.strictObject({
  rows: z.array(z.strictObject({ key: z.string(), row: z.record(z.string(), z.json()) })),
})
export type CurrentRowsAnswer = z.infer<typeof currentRowsAnswerSchema>
