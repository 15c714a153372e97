import type { PersonRef } from '@postern/contracts'
import { comparePeople } from './person.ts'
import type { Need } from './transitions.ts'

type Named = PersonRef | null | undefined

/** What a move needs for which somebody else than the owner stands: `member` names who, and is seen to be another. */
export function fourEyes<Situation>(
  member: string,
  detail: string,
  { given, owner }: { given(situation: Situation): Named; owner(situation: Situation): Named },
): readonly Need<Situation>[] {
  const isNot = (outcome: 'same' | 'unknown') => (situation: Situation) =>
    given(situation) === undefined || comparePeople(given(situation), owner(situation)) !== outcome
  return [
    { code: 'required', member, detail, isMet: (situation) => given(situation) !== undefined },
    { code: 'same_person', member, detail: 'must not be the owner', isMet: isNot('same') },
    { code: 'not_comparable', member, detail: notComparable, isMet: isNot('unknown') },
  ]
}

/** Why somebody cannot be taken for another than the owner. */
export const notComparable =
  'must be named by something that the owner is named by too (person_id, email or name), so that both are seen to be two people'
