import type { PersonRef } from '@postern/contracts'
import { comparePeople } from './person.ts'
import type { Need } from './transitions.ts'

type Named = PersonRef | null | undefined

/**
 * What a move needs for which somebody else than the owner stands: `member` names who, and is seen to be another. `owners` are
 * those before and after the request, of whom the last one stays.
 */
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

/** Why somebody cannot be taken for another than the owner. */
export const notComparable =
  'must be named by something that the owner is named by too (person_id, email or name), so that both are seen to be two people'
