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
 * What a merge patch has made of a person. Where the patch is about somebody else, nothing is left of who was there before
 * but what the patch names too: an old name beside a new address is two people at once, of whom one could validate what the
 * other owns. Another name alone is the same person's.
 */
export function ofOnePerson(stored: Named, patch: PersonPatch | null | undefined, merged: unknown): unknown {
  if (patch === null || patch === undefined || stored === null || stored === undefined) return merged
  if (typeof merged !== 'object' || merged === null || !namesAnother(stored, patch)) return merged
  const named = new Map<string, unknown>(Object.entries(patch))
  return Object.fromEntries(Object.entries(merged).filter(([member]) => named.get(member) !== undefined))
}

/** Whether a patch gives another id or address, or takes one away and gives another name. */
function namesAnother(stored: PersonRef, patch: PersonPatch): boolean {
  const ids = [
    [stored.person_id, patch.person_id],
    [stored.email?.toLowerCase(), patch.email?.toLowerCase() ?? patch.email],
  ] as const
  const given = ids.filter(([, after]) => after !== undefined && after !== null)
  if (given.some(([before, after]) => before !== undefined && before !== after)) return true
  if (given.length > 0) return given.every(([before]) => before === undefined)
  const taken = ids.some(([before, after]) => before !== undefined && after === null)
  return taken && typeof patch.name === 'string' && plain(patch.name) !== plain(stored.name ?? '')
}

function plain(name: string): string {
  return name.trim().replaceAll(/\s+/g, ' ').toLowerCase()
}
