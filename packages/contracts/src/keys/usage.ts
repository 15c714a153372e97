import { z } from 'zod'
import { dateSchema, timestampSchema } from '../common.ts'

export const usageDays = 30

/** Accurate to one minute. */
export const apiKeyUsageSchema = z
  .object({
    days: z.array(z.object({ day: dateSchema.meta({ description: 'In UTC' }), requests: z.int().min(0) })).meta({
      description: `Accepted requests of the last ${usageDays} days, oldest first, including days without requests`,
    }),
    routes: z
      .array(
        z.object({
          route: z.string().meta({ description: 'The operationId', examples: ['findings.list'] }),
          requests: z.int().min(1),
          last_used_on: dateSchema,
        }),
      )
      .meta({ description: 'The routes that were called, most frequent first' }),
    addresses: z
      .array(
        z.object({
          address: z.string().meta({ examples: ['203.0.113.7'] }),
          first_used_at: timestampSchema,
          last_used_at: timestampSchema,
        }),
      )
      .meta({ description: 'The last hundred addresses that used it, newest first' }),
    addresses_dropped: z.int().min(0).meta({ description: 'The number of older addresses that are no longer listed' }),
  })
  .meta({ id: 'ApiKeyUsage' })
export type ApiKeyUsage = z.infer<typeof apiKeyUsageSchema>
