import { z } from 'zod'

/** The result of encrypting a tenant's secrets with the current key of the ring. */
export const rewrappedSchema = z.object({
  rewrapped: z.int(),
  /** Secrets that cannot be decrypted, with the ids of their connectors. */
  unreadable: z.array(z.object({ connector: z.string(), name: z.string() })),
})
