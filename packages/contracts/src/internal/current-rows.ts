import { z } from 'zod'
import { externalIdSchema } from '../common.ts'
import { datasets } from '../sync/connector.ts'
import { hierarchyKeySchema } from '../universe/hierarchy.ts'

export const maxCurrentRows = 5000

/** `POST /internal/v1/current-rows` (sync → universe). */
export const currentRowsBodySchema = z
  .strictObject({
    dataset: z.enum(datasets),
    /** Only for the dataset `org_structure`. */
    hierarchy: hierarchyKeySchema.optional(),
    keys: z.array(externalIdSchema).min(1).max(maxCurrentRows),
    /** Waits for pushes in progress, or returns 503. */
    behind_pushes: z.literal(true).optional(),
  })
  .refine(({ dataset, hierarchy }) => (dataset === 'org_structure') === (hierarchy !== undefined))
export type CurrentRowsBody = z.infer<typeof currentRowsBodySchema>

/** The rows in the format of a push, without empty members and defaults. */
export const currentRowsAnswerSchema = z.strictObject({
  rows: z.array(z.strictObject({ key: z.string(), row: z.record(z.string(), z.json()) })),
  /** Large rows may not fit. */
  reached: z.int().min(1),
})
export type CurrentRowsAnswer = z.infer<typeof currentRowsAnswerSchema>
