import { z } from 'zod'

/**
 * `POST /internal/v1/sources/retired` (sync → universe): whether the calling connector is retired, and no longer brings
 * anything. Its next run ends that too.
 */
export const retireSourceBodySchema = z.strictObject({
  /** Increases with each request of the connector. A late request gets 409. */
  telling: z.int().min(1).max(2_147_483_647),
  retired: z.boolean(),
})
export type RetireSourceBody = z.infer<typeof retireSourceBodySchema>
