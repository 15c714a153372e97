import { z } from 'zod'

export const rewrappedSchema = z.object({
  rewrapped: z.int(),
  unreadable: z.array(z.object({ connector: z.string(), name: z.string() })),
})
