import { z } from 'zod'

/** The result of encrypting secrets with the current key of the ring. */
export const rewrappedSchema = z.object({
  rewrapped: z.int(),
  unreadable: z.array(z.object({ connector: z.string(), name: z.string() })),
})
