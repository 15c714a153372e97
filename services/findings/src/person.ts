import { type PersonPatch, type PersonRef, uuidSchema } from '@postern/contracts'

type Named = PersonRef | null | undefined

export function isPersonId(text: string): boolean {
  return uuidSchema.safeParse(text).success
}

/**
 * Compares ids and e-mail addresses, or names if the two share neither. The database decides in the same way
 * (`findings.is_another_person`).
 */
export function comparePeople(a: Named, b: Named): 'same' | 'another' | 'unknown' {
  if (a === null || a === undefined || b === null || b === undefined) return 'unknown'
  const ids = [
    [a.person_id, b.person_id],
    [a.email?.toLowerCase(), b.email?.toLowerCase()],
  ].filter(([one, other]) => one !== undefined && other !== undefined)
  if (ids.length > 0) return ids.some(([one, other]) => one === other) ? 'same' : 'another'
  if (a.name === undefined || b.name === undefined) return 'unknown'
  return normalizeName(a.name) === normalizeName(b.name) ? 'same' : 'another'
}

/**
 * If the patch names somebody else, drops members of the former person: an old name beside a new address could pass the
 * four-eyes check.
 */
export function dropFormerPerson(stored: Named, patch: PersonPatch | null | undefined, merged: unknown): unknown {
  if (patch === null || patch === undefined || stored === null || stored === undefined) return merged
  if (typeof merged !== 'object' || merged === null || !namesAnotherPerson(stored, patch)) return merged
  const named = new Map<string, unknown>(Object.entries(patch))
  return Object.fromEntries(Object.entries(merged).filter(([member]) => named.get(member) !== undefined))
}

function namesAnotherPerson(stored: PersonRef, patch: PersonPatch): boolean {
  const ids = [
    [stored.person_id, patch.person_id],
    [stored.email?.toLowerCase(), patch.email?.toLowerCase() ?? patch.email],
  ] as const
  const given = ids.filter(([, after]) => after !== undefined && after !== null)
  if (given.some(([before, after]) => before !== undefined && before !== after)) return true
  if (given.length > 0) return given.every(([before]) => before === undefined)
  const taken = ids.some(([before, after]) => before !== undefined && after === null)
  return taken && typeof patch.name === 'string' && normalizeName(patch.name) !== normalizeName(stored.name ?? '')
}

function normalizeName(name: string): string {
  return name.trim().replaceAll(/\s+/g, ' ').toLowerCase()
}
