import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { emailSchema } from '../email.ts'

export const maxLookedUpPeople = 1000

/** `POST /internal/v1/people/lookup` (findings → universe), in any case. */
export const lookupPeopleBodySchema = z.strictObject({
  emails: z.array(emailSchema).min(1).max(maxLookedUpPeople),
})

export const lookupPeopleAnswerSchema = z.strictObject({
  people: z.array(z.strictObject({ email: z.string(), person_id: uuidSchema })),
})
export type LookupPeopleAnswer = z.infer<typeof lookupPeopleAnswerSchema>
