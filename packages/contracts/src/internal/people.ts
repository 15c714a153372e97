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

/** `POST /internal/v1/people/identify` (findings, sync → universe): ids, e-mail addresses or names, in any case. */
export const identifyPeopleBodySchema = z.strictObject({
  texts: z.array(z.string().min(1).max(255)).min(1).max(maxLookedUpPeople),
})

export const maxIdentifiedPeople = 1000

const identifiedPersonSchema = z.strictObject({
  person_id: uuidSchema,
  email: z.string().nullable(),
  name: z.string(),
  is_only_one: z.boolean(),
})
export type IdentifiedPerson = z.infer<typeof identifiedPersonSchema>

/** The people with one of the texts; null if there are more than `maxIdentifiedPeople`. `is_only_one`: of that name. */
export const identifyPeopleAnswerSchema = z.strictObject({ people: z.array(identifiedPersonSchema).nullable() })

/** For a filter that names more than that. */
export const tooManyOwners = {
  parameter: 'owner',
  code: 'too_many',
  detail: `must name at most ${maxIdentifiedPeople} people: use ids or e-mail addresses instead of a name that many have`,
}

/** Selects what people own, whether it names them by id, e-mail address or name. */
export interface OwnerFilter {
  readonly texts: readonly string[]
  /** The texts, and the ids and e-mail addresses of the people. */
  readonly identifiers: readonly string[]
  /** Names that only one person has, for owners that have only a name. */
  readonly names: readonly string[]
}

export function ownerFilterOf(texts: readonly string[], people: readonly IdentifiedPerson[]): OwnerFilter {
  return {
    texts,
    identifiers: [...texts, ...people.flatMap(({ person_id: id, email }) => (email === null ? [id] : [id, email]))],
    names: people.filter((person) => person.is_only_one).map(({ name }) => name),
  }
}
