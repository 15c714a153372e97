import type { PushedPerson } from '@postern/contracts'
import { type RowFault, repetitions } from '../push/rules.ts'

/** What is wrong with the rows by themselves: repeated keys, and one address for two people. */
export function faultsOfPeople(people: readonly PushedPerson[]): RowFault[] {
  return [
    ...repetitions(
      'external_id',
      people.map(({ external_id }) => external_id),
    ),
    ...repetitions(
      'email',
      people.map(({ email }) => email?.toLowerCase()),
      (first) => `is the address of "${people[first]?.external_id}" already, before this row`,
    ),
  ]
}

/** `holder`: who has the address. */
export function takenEmailFault({ index, holder }: { readonly index: number; readonly holder: string }): RowFault {
  const detail = `is the address of another stored person, "${holder}", who keeps it also while inactive`
  return { index, field: 'email', code: 'duplicate', detail }
}
