import { z } from 'zod'

/**
 * `POST /internal/v1/sources/retired` (sync → universe): a retired connector brings nothing. Its next run ends that
 * too.
 */
export const retireSourceBodySchema = z.strictObject({
  telling: z.int().min(1).max(2_147_483_647),
  retired: z.boolean(),
})
export type RetireSourceBody = z.infer<typeof retireSourceBodySchema>
