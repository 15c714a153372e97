import type { PushedTestProcedure, TestProcedure } from '@postern/contracts'
import { checkTestProcedureRow, ownReview } from '@postern/contracts/internal'
import { type RowFault, toRowFaults, repeatedValueFaults } from '../push/rules.ts'

/** Returns faults that need no stored data: repeated keys, dates, numbers, and testers who review their own work. */
export function faultsOfTestProcedures(rows: readonly PushedTestProcedure[]): RowFault[] {
  return [
    ...repeatedValueFaults(
      'external_id',
      rows.map(({ external_id }) => external_id),
    ),
    ...rows.flatMap((row, index) => toRowFaults(index, checkTestProcedureRow(row))),
  ]
}

export function ownReviewFault(index: number): RowFault {
  return { index, ...ownReview }
}

/** A row that names the tester by id and the reviewer by address, or the reverse. They may be one person. */
export interface NamedInTwoWays {
  readonly index: number
  readonly id: string
  readonly email: string
}

/** Lists rows whose tester and reviewer can only be compared with stored people. */
export function findNamedInTwoWays(rows: readonly PushedTestProcedure[]): NamedInTwoWays[] {
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

/** Returns the fault if a procedure cannot change to the row's status. Steps may be skipped, because sources are read daily. */
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

export function unknownEntityFault(index: number, place: number): RowFault {
  return { index, field: `entities/${place}`, code: 'unknown', detail: 'is the external_id of no stored entity' }
}
