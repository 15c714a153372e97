import type { PushedTestProcedure, TestProcedure } from '@postern/contracts'
import { ownFaultsOfTestProcedure, ownReview } from '@postern/contracts/internal'
import { type RowFault, inPlace, repetitions } from '../push/rules.ts'

/** What is wrong with the rows by themselves: repeated keys, dates, numbers, a reviewer of one's own work. */
export function faultsOfTestProcedures(rows: readonly PushedTestProcedure[]): RowFault[] {
  return [
    ...repetitions(
      'external_id',
      rows.map(({ external_id }) => external_id),
    ),
    ...rows.flatMap((row, index) => inPlace(index, ownFaultsOfTestProcedure(row))),
  ]
}

export function ownReviewFault(index: number): RowFault {
  return { index, ...ownReview }
}

/** Of a row, the id by which it names the one and the address by which it names the other: the people know whether that is one person. */
export interface NamedInTwoWays {
  readonly index: number
  readonly id: string
  readonly email: string
}

/** Where a tester and a reviewer can be compared by the tenant's people alone. */
export function namedInTwoWays(rows: readonly PushedTestProcedure[]): NamedInTwoWays[] {
  return rows.flatMap(({ tester, reviewer }, index) =>
    [
      { index, id: tester?.person_id, email: reviewer?.email },
      { index, id: reviewer?.person_id, email: tester?.email },
    ].flatMap(({ id, email }) => (id === undefined || email === undefined ? [] : [{ index, id, email }])),
  )
}

const nextStatuses: Readonly<Record<TestProcedure['status'], readonly TestProcedure['status'][]>> = {
  not_started: ['in_progress', 'in_review', 'completed'],
  in_progress: ['in_review', 'completed'],
  in_review: ['in_progress', 'completed'],
  completed: ['in_progress'],
}

/**
 * Where a stored procedure cannot take the status that its row names; undefined where it can. Steps forward may be left
 * out: a source that is asked once a night does not show each of them.
 */
export function procedureStatusFault(
  index: number,
  from: TestProcedure['status'],
  to: TestProcedure['status'],
): RowFault | undefined {
  if (from === to || nextStatuses[from].includes(to)) return undefined
  const allowed = [from, ...nextStatuses[from]].join(' or ')
  const detail = `must be ${allowed}: the procedure is ${from} now`
  return { index, field: 'status', code: 'invalid_transition', detail }
}

/** `place` is where the entity stands in the row's list, from 0. */
export function unknownEntityFault(index: number, place: number): RowFault {
  return { index, field: `entities/${place}`, code: 'unknown', detail: 'is the external_id of no stored entity' }
}
