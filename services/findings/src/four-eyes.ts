import type { PersonRef } from '@postern/contracts'
import { comparePeople } from './person.ts'
import type { Need } from './transitions.ts'

type Named = PersonRef | null | undefined

/** Requires that `member` names a person who is not an owner before or after the request. */
export function fourEyes<Situation>(
  member: string,
  detail: string,
  { given, owners }: { given(situation: Situation): Named; owners(situation: Situation): readonly Named[] },
): readonly Need<Situation>[] {
  const isNot = (outcome: 'same' | 'unknown', who: readonly Named[], situation: Situation) =>
    given(situation) === undefined || who.every((owner) => comparePeople(given(situation), owner) !== outcome)
  return [
    { code: 'required', member, detail, isMet: (situation) => given(situation) !== undefined },
    {
      code: 'same_person',
      member,
      detail: 'must not be the owner',
      isMet: (situation) => isNot('same', owners(situation), situation),
    },
    {
      code: 'not_comparable',
      member,
      detail: notComparable,
      isMet: (situation) => isNot('unknown', owners(situation).slice(-1), situation),
    },
  ]
}

export const notComparable = "must have a person_id, email or name that can be compared with the owner's"
