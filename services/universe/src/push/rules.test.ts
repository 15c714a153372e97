import type { PushedEntity } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import {
  asInputErrors,
  faultsOfPush,
  maxFaults,
  groupByOutsideParent,
  statusFault,
  unknownParentFault,
} from './rules.ts'

function row(external_id: string, parent_external_id?: string): PushedEntity {
  const parent = parent_external_id === undefined ? {} : { parent_external_id }
  return { external_id, ...parent, name: external_id, type: 'process', status: 'active' }
}

/** A chain of so many rows, the root last. */
function chain(length: number): PushedEntity[] {
  const rows = Array.from({ length }, (_, index) => row(`n${index}`, index === 0 ? undefined : `n${index - 1}`))
  return rows.toReversed()
}

const placesOf = (rows: readonly PushedEntity[]) => faultsOfPush(rows).map(({ index, code }) => `${index} ${code}`)

describe('the faults of a push by itself', () => {
  test('a tree in any order has none', () => {
    expect(placesOf([row('c', 'b'), row('b', 'a'), row('a'), row('d', 'a'), row('e', 'stored elsewhere')])).toEqual([])
  })

  test('a key may stand for one row alone', () => {
    expect(placesOf([row('a'), row('b'), row('a'), row('a')])).toEqual(['2 duplicate', '3 duplicate'])
  })

  test('a row above itself, a circle, and what hangs below a circle are refused; the rest is not', () => {
    expect(placesOf([row('a', 'a')])).toEqual(['0 cycle'])
    expect(
      placesOf([row('x', 'c'), row('a', 'b'), row('b', 'c'), row('c', 'a'), row('root'), row('leaf', 'root')]),
    ).toEqual(['0 cycle', '1 cycle', '2 cycle', '3 cycle'])
  })

  test('a chain is at most twelve long', () => {
    expect(placesOf(chain(12))).toEqual([])
    expect(placesOf(chain(14))).toEqual(['0 too_deep', '1 too_deep'])
  })

  test('the depth does not depend on the order of the rows', () => {
    expect(placesOf(chain(13).toReversed())).toEqual(['12 too_deep'])
  })

  test('a chain of thousands is measured at once', () => {
    expect(faultsOfPush(chain(5000))).toHaveLength(4988)
  })

  test('days before 1900 are refused', () => {
    expect(faultsOfPush([{ ...row('a'), last_audit_date: '0000-01-01' }])).toMatchObject([
      { index: 0, field: 'last_audit_date', code: 'out_of_range' },
    ])
  })

  test('an answer lists the first faults, by row, with their places', () => {
    const errors = asInputErrors(
      Array.from({ length: maxFaults + 1 }, (_, index) => unknownParentFault(maxFaults - index)),
    )
    expect(errors).toHaveLength(maxFaults)
    expect(errors[0]).toMatchObject({ pointer: '/entities/0/parent_external_id', code: 'unknown' })
    expect(errors.at(-1)?.pointer).toBe(`/entities/${maxFaults - 1}/parent_external_id`)
  })
})

test('parents outside the push are listed once, with the rows that name them', () => {
  expect(groupByOutsideParent([row('a', 'x'), row('b', 'a'), row('c', 'x'), row('d', 'y')])).toEqual(
    new Map([
      ['x', [0, 2]],
      ['y', [3]],
    ]),
  )
})

describe('the status of a stored entity', () => {
  const statuses = ['draft', 'active', 'archived'] as const
  const allowed = new Set([
    'draft draft',
    'draft active',
    'active active',
    'active archived',
    'archived archived',
    'archived active',
  ])
  test.each(statuses.flatMap((from) => statuses.map((to) => [from, to] as const)))('%s to %s', (from, to) => {
    const fault = statusFault(3, from, to)
    if (allowed.has(`${from} ${to}`)) expect(fault).toBeUndefined()
    else expect(fault).toMatchObject({ index: 3, field: 'status', code: 'invalid_transition' })
  })
})
