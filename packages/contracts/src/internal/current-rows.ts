import { z } from 'zod'
import { externalIdSchema } from '../common.ts'
import { datasets } from '../sync/connector.ts'
import { hierarchyKeySchema } from '../universe/hierarchy.ts'

/** The maximum number of rows in a request. */
export const maxCurrentRows = 5000

/** `POST /internal/v1/current-rows` (sync → universe): returns the current rows with these keys. */
export const currentRowsBodySchema = z
  .strictObject({
    dataset: z.enum(datasets),
    /** The hierarchy; only for the dataset `org_structure`. */
    hierarchy: hierarchyKeySchema.optional(),
    keys: z.array(externalIdSchema).min(1).max(maxCurrentRows),
    /** Waits for every push in progress. Returns 503 if one takes too long. */
    behind_pushes: z.literal(true).optional(),
  })
  .refine(({ dataset, hierarchy }) => (dataset === 'org_structure') === (hierarchy !== undefined))
export type CurrentRowsBody = z.infer<typeof currentRowsBodySchema>

/** The existing rows in the format of a push, without empty members and defaults. */
export const currentRowsAnswerSchema = z.strictObject({
  rows: z.array(z.strictObject({ key: z.string(), row: z.record(z.string(), z.json()) })),
  /** The number of keys that the response covers, from the first. Large rows may not all fit in memory. */
  reached: z.int().min(1),
})
export type CurrentRowsAnswer = z.infer<typeof currentRowsAnswerSchema>
