import { z } from 'zod'
import { dateSchema, timestampSchema } from '../common.ts'
import { namedScopes } from '../scope.ts'

export const usageDays = 30

const code = z.string().meta({ description: 'The problem code', examples: ['insufficient_scope'] })
const route = z
  .string()
  .nullable()
  .meta({ description: 'The route, as resource.action; null if none matched', examples: ['findings.list'] })
const address = z.string().meta({ examples: ['203.0.113.7'] })
const refusals = z.int().min(0).meta({ description: 'Refused requests' })

export const refusedRequestSchema = z
  .object({
    at: timestampSchema,
    request_id: z.string().meta({ description: 'The `request_id` of the problem document' }),
    method: z.string().meta({ examples: ['GET'] }),
    route,
    address,
    code,
  })
  .meta({ id: 'RefusedRequest' })
export type RefusedRequest = z.infer<typeof refusedRequestSchema>

const rightSizingSchema = z
  .object({
    counted_from: timestampSchema.meta({ description: 'Uses since this time are counted' }),
    complete: z.boolean().meta({ description: 'Whether that is the whole period. Until then, nothing is suggested.' }),
    routes_callable: z
      .int()
      .min(0)
      .meta({ description: 'The number of routes that the key can call', examples: [31] }),
    routes_used: z
      .int()
      .min(0)
      .meta({ description: 'The number of those that it called', examples: [3] }),
    unneeded_scopes: z.array(z.enum(namedScopes)).meta({
      description: 'Scopes that opened none of the routes that it called',
      examples: [['read:universe']],
    }),
    suggested_scopes: z
      .array(z.enum(namedScopes))
      .nullable()
      .meta({ description: 'The scopes that suffice; null if nothing is suggested', examples: [['read:findings']] }),
  })
  .meta({ id: 'RightSizing', description: 'Whether the key has more scopes than it uses' })

export const apiKeyUsageSchema = z
  .object({
    days: z
      .array(
        z.object({
          day: dateSchema.meta({ description: 'In UTC' }),
          requests: z.int().min(0).meta({ description: 'Accepted requests' }),
          refusals,
        }),
      )
      .meta({ description: `The last ${usageDays} days, oldest first, including days without requests` }),
    routes: z
      .array(
        z.object({
          route: z.string().meta({ description: 'The route, as resource.action', examples: ['findings.list'] }),
          requests: z.int().min(1),
          last_used_on: dateSchema,
        }),
      )
      .meta({ description: 'The routes that were called, most frequent first' }),
    addresses: z
      .array(
        z.object({
          address,
          first_used_at: timestampSchema.meta({ description: 'The first request, accepted or refused' }),
          last_used_at: timestampSchema.meta({ description: 'The last request, accepted or refused' }),
          requests: z.int().min(0).meta({ description: 'Accepted requests' }),
          refusals,
        }),
      )
      .meta({
        description:
          'The last hundred addresses that used the key, and up to a hundred that were only refused; newest first',
      }),
    addresses_dropped: z.int().min(0).meta({ description: 'The number of older addresses that are no longer listed' }),
    refused: z
      .array(
        z.object({ code, route, refusals, last_refused_at: timestampSchema.meta({ description: 'The last refusal' }) }),
      )
      .meta({ description: 'Refusals by reason and route, most frequent first' }),
    other_refusals: z.int().min(0).meta({
      description: 'Refusals without an address and a route, because too many addresses were refused on one day',
    }),
    last_refusals: z.array(refusedRequestSchema).meta({ description: 'The last hundred refusals, newest first' }),
    right_sizing: rightSizingSchema,
  })
  .meta({ id: 'ApiKeyUsage', description: `Counts are of the last ${usageDays} days.` })
export type ApiKeyUsage = z.infer<typeof apiKeyUsageSchema>
