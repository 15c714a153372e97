import { z } from 'zod'
import { emailSchema, sentEmailSchema } from '../email.ts'
import { externalIdSchema, line, timestampSchema, uuidSchema, withNulls } from '../common.ts'

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

export const pushedPersonSchema = z
  .strictObject({
    external_id: externalIdSchema,
    name: line(1, 255),
    email: emailSchema.optional().meta({ description: 'Stored in lower case; unique among active people' }),
    title: line(1, 255).optional(),
    active: z.boolean().default(true),
  })
  .meta({ id: 'PushedPerson' })
export type PushedPerson = z.infer<typeof pushedPersonSchema>

export const sentPersonSchema = z
  .strictObject(
    withNulls({
      ...pushedPersonSchema.shape,
      email: sentEmailSchema.optional().meta({
        description:
          'Stored in lower case; unique among active people. An invalid address (RFC 5321, RFC 6531) is left out, and `warnings` names it',
      }),
    }),
  )
  .meta({ id: 'SentPerson' })

export const pushPeopleBodySchema = z.array(sentPersonSchema).min(1).max(5000)
