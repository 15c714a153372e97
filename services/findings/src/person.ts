import type { PersonRef } from '@postern/contracts'

/** Whether two references name one person: by id where both have one, else by address, else by name. */
export function isSamePerson(a: PersonRef | null | undefined, b: PersonRef | null | undefined): boolean {
  if (a === null || a === undefined || b === null || b === undefined) return false
  if (a.person_id !== undefined && b.person_id !== undefined) return a.person_id === b.person_id
  if (a.email !== undefined && b.email !== undefined) return a.email.toLowerCase() === b.email.toLowerCase()
  return a.name !== undefined && b.name !== undefined && a.name.toLowerCase() === b.name.toLowerCase()
}
