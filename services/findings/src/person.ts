import type { PersonPatch, PersonRef } from '@postern/contracts'

type Named = PersonRef | null | undefined

/**
 * Whether two references name one person. An equal id or address says that they do, a different one that they do not; names
 * decide where neither is in both. Where nothing is in both, nobody can tell: an owner could pass by a name for another. The
 * database judges alike (findings.is_another_person).
 */
export function comparePeople(a: Named, b: Named): 'same' | 'another' | 'unknown' {
  if (a === null || a === undefined || b === null || b === undefined) return 'unknown'
  const ids = [
    [a.person_id, b.person_id],
    [a.email?.toLowerCase(), b.email?.toLowerCase()],
  ].filter(([one, other]) => one !== undefined && other !== undefined)
  if (ids.length > 0) return ids.some(([one, other]) => one === other) ? 'same' : 'another'
  if (a.name === undefined || b.name === undefined) return 'unknown'
  return plain(a.name) === plain(b.name) ? 'same' : 'another'
}

/**
 * What a merge patch has made of a person, without the id of whoever had the address before. The id comes from the address
 * (`universe/link-people.ts`): beside another address it would name two people at once.
 */
export function withoutFormerId(stored: Named, patch: PersonPatch | null | undefined, merged: unknown): unknown {
  const { email, person_id: id } = patch ?? {}
  if (id !== undefined || email === undefined || email === null) return merged
  if (email.toLowerCase() === stored?.email?.toLowerCase()) return merged
  return typeof merged === 'object' && merged !== null
    ? Object.fromEntries(Object.entries(merged).filter(([member]) => member !== 'person_id'))
    : merged
}

function plain(name: string): string {
  return name.trim().replaceAll(/\s+/g, ' ').toLowerCase()
}
