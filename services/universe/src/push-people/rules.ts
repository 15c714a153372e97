import type { PushedPerson } from '@postern/contracts'
import { type RowFault, repeatedValueFaults } from '../push/rules.ts'

export function faultsOfPeople(people: readonly PushedPerson[]): RowFault[] {
  return [
    ...repeatedValueFaults(
      'external_id',
      people.map(({ external_id }) => external_id),
    ),
    ...repeatedValueFaults(
      'email',
      people.map(({ email, active }) => (active ? email?.toLowerCase() : undefined)),
      (first) => `is already the address of an earlier row, "${people[first]?.external_id}"`,
    ),
  ]
}

/** `holder`: the external id of the active person who has the address. */
export function takenEmailFault({ index, holder }: { readonly index: number; readonly holder: string }): RowFault {
  const detail = `is the address of another active person, "${holder}"`
  return { index, field: 'email', code: 'duplicate', detail }
}
