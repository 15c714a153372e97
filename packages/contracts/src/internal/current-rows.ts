import { z } from 'zod'
import { externalIdSchema } from '../common.ts'
import { datasets } from '../sync/connector.ts'
import { hierarchyKeySchema } from '../universe/hierarchy.ts'

/** Most rows that are asked for at once. */
export const maxCurrentRows = 5000

/** `POST /internal/v1/current-rows` (sync → universe): how the rows with these keys stand now. */
export const currentRowsBodySchema = z
  .strictObject({
    dataset: z.enum(datasets),
    /** Of the dataset `org_structure`: which one. */
    hierarchy: hierarchyKeySchema.optional(),
    keys: z.array(externalIdSchema).min(1).max(maxCurrentRows),
    /** As every push leaves them that is under way now. 503 where one takes long. */
    behind_pushes: z.literal(true).optional(),
    /** Who asks knows of answers that tell of some of the keys only. Not there: a sync service of the release before. */
    in_parts: z.literal(true).optional(),
  })
  .refine(({ dataset, hierarchy }) => (dataset === 'org_structure') === (hierarchy !== undefined))
export type CurrentRowsBody = z.infer<typeof currentRowsBodySchema>

/** Those that there are, each as a push would say it: members that are empty are left out, and so are defaults. */
export const currentRowsAnswerSchema = z.strictObject({
  rows: z.array(z.strictObject({ key: z.string(), row: z.record(z.string(), z.json()) })),
  /**
   * Of how many of the keys, from the first on, the answer tells; of those behind nothing is said. Not there: of all. A page of 5,000
   * rows may be more than the memory of both.
   */
  reached: z.int().min(1).optional(),
})
export type CurrentRowsAnswer = z.infer<typeof currentRowsAnswerSchema>
