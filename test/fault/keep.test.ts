import { expect, test } from 'vitest'
import { merge } from './keep.ts'
import type { Outcome } from './outcome.ts'

const outcome = (name: string, requests: number): Outcome => ({
  name,
  lasted_ms: 1,
  requests,
  failed: {},
  longest_gap_ms: 1,
  recovered_ms: 1,
  revocations: 1,
  revocation_calls: 1,
  fenced: 0,
  longest_revocation_ms: 1,
  longest_wait_ms: 1,
  unconfirmed_calls: 0,
  longest_call_ms: 1,
  no_processor_ms: 0,
})
const planned = ['one', 'two', 'three', 'four'].map((name) => ({ name }))
const before = { measured_at: '2026-11-21T00:00:00.000Z', commit: 'aaaaaaa' }
const measured = { measured_at: '2026-11-22T00:00:00.000Z', commit: 'bbbbbbb' }
const load = { perSecond: 100 }

test('the results of all parts are listed with their dates, and missing parts are named', () => {
  const first = merge(planned, undefined, {
    seed: '1',
    load,
    outcomes: [outcome('three', 1), outcome('one', 1), outcome('no longer planned', 1)],
    leftOut: ['four: this account may not'],
    measured: before,
  })
  expect(first).toMatchObject({ planned: 4, missing: ['two'], left_out: ['four: this account may not'] })
  const second = merge(planned, first, {
    seed: '1',
    load,
    outcomes: [outcome('two', 2), outcome('one', 2), outcome('four', 2)],
    leftOut: [],
    measured,
  })
  expect(second.outcomes.map(({ name, requests, commit }) => [name, requests, commit])).toEqual([
    ['one', 2, 'bbbbbbb'],
    ['two', 2, 'bbbbbbb'],
    ['three', 1, 'aaaaaaa'],
    ['four', 2, 'bbbbbbb'],
  ])
  expect(second).toMatchObject({ missing: [], left_out: [] })
})

test('results of another seed are omitted', () => {
  const old = { seed: '1', outcomes: [{ ...outcome('one', 1), ...before }], left_out: [] }
  const kept = merge(planned, old, { seed: '2', load, outcomes: [outcome('two', 2)], leftOut: [], measured })
  expect(kept.outcomes.map(({ name }) => name)).toEqual(['two'])
  expect(kept.missing).toEqual(['one', 'three', 'four'])
})
