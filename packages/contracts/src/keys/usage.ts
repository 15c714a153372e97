import { z } from 'zod'
import { dateSchema, timestampSchema } from '../common.ts'

/** Days that the usage of a key is told for, today among them. */
export const usageDays = 30

/** How many requests of a key were accepted, by day and by route, and from where it was used or tried. Right within a minute. */
export const apiKeyUsageSchema = z
  .object({
    days: z
      .array(z.object({ day: dateSchema.meta({ description: 'In UTC' }), requests: z.int().min(0) }))
      .meta({ description: `Accepted requests of the last ${usageDays} days, oldest first, also days without any` }),
    routes: z
      .array(
        z.object({
          route: z.string().meta({ description: 'The operationId', examples: ['findings.list'] }),
          requests: z.int().min(1),
          last_used_on: dateSchema,
        }),
      )
      .meta({ description: 'What was called in these days, most often first' }),
    addresses: z
      .array(
        z.object({
          address: z.string().meta({ examples: ['203.0.113.7'] }),
          first_used_at: timestampSchema,
          last_used_at: timestampSchema,
        }),
      )
      .meta({ description: 'The hundred addresses that it was used from last, the newest first' }),
    addresses_dropped: z
      .int()
      .min(0)
      .meta({ description: 'How many addresses are not listed any more, because newer ones took their place' }),
  })
  .meta({ id: 'ApiKeyUsage' })
export type ApiKeyUsage = z.infer<typeof apiKeyUsageSchema>
