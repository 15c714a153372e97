import { z } from 'zod'

export const findingCountsSchema = z
  .object({
    critical: z.int().min(0),
    high: z.int().min(0),
    medium: z.int().min(0),
    low: z.int().min(0),
  })
  .meta({ id: 'FindingCounts' })
export type FindingCounts = z.infer<typeof findingCountsSchema>
