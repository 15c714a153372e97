import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { emailSchema } from '../email.ts'

/** Most e-mail addresses of one question. */
export const maxLookedUpPeople = 1000

/** `POST /internal/v1/people/lookup` (findings → universe): whom these e-mail addresses, in any case, belong to. */
export const lookupPeopleBodySchema = z.strictObject({
  emails: z.array(emailSchema).min(1).max(maxLookedUpPeople),
})

/** Those that there are, in no order; addresses in lower case. */
export const lookupPeopleAnswerSchema = z.strictObject({
  people: z.array(z.strictObject({ email: z.string(), person_id: uuidSchema })),
})
export type LookupPeopleAnswer = z.infer<typeof lookupPeopleAnswerSchema>
