import { z } from 'zod'
import { externalIdSchema, line, timestampSchema, uuidSchema } from '../common.ts'

export const personSchema = z
  .object({
    id: uuidSchema,
    external_id: z.string(),
    name: z.string(),
    email: z.string().nullable(),
    title: z.string().nullable(),
    active: z.boolean(),
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Person' })
export type Person = z.infer<typeof personSchema>

/** One row of a push of people: the source's own key and what the source says. */
export const pushedPersonSchema = z
  .strictObject({
    external_id: externalIdSchema,
    name: line(1, 255),
    email: z.email().max(254).optional().meta({ description: 'Kept in lower case; no two people share one' }),
    title: line(1, 255).optional(),
    active: z.boolean().default(true),
  })
  .meta({ id: 'PushedPerson' })
export type PushedPerson = z.infer<typeof pushedPersonSchema>

export const pushPeopleBodySchema = z.array(pushedPersonSchema).min(1).max(5000)
