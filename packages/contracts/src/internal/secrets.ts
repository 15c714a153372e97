import { z } from 'zod'

/** What putting a tenant's secrets under the current key of the ring came to. */
export const rewrappedSchema = z.object({
  rewrapped: z.int(),
  /** Secrets that cannot be opened, with the ids of their connectors. */
  unreadable: z.array(z.object({ connector: z.string(), name: z.string() })),
})
