import { runStatuses } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import type { Run } from '../api/sync.ts'
import { canBeUndone, keyOf } from './run-rules.ts'

function runOf(change: Partial<Run>, applied = 1): Run {
  const none = { fetched: 0, valid: 0, invalid: 0, created: 0, updated: 0, moved: 0 }
  return {
    id: '01a1ff18-0000-7000-8000-000000000002',
    connector_id: '01a1ff18-0000-7000-8000-000000000001',
    connector_key: 'hr',
    mode: 'apply',
    trigger: 'api',
    status: 'succeeded',
    counts: { ...none, reactivated: 0, deactivated: 0, unchanged: 0, missing: 0, applied },
    breaches: [],
    failure: null,
    diff_hash: null,
    input_sha256: null,
    rollback_of: null,
    reason: null,
    attempt: 1,
    created_by: { type: 'user', id: 'ada', label: 'Ada' },
    created_at: '2026-01-01T00:00:00.000Z',
    started_at: '2026-01-01T00:00:00.000Z',
    finished_at: '2026-01-01T00:00:01.000Z',
    ...change,
  }
}

describe('undoing a run is offered', () => {
  const ended = ['succeeded', 'partial', 'failed', 'cancelled'] as const
  test.each(ended)('if it is %s and has applied changes, also for a rollback', (status) => {
    expect([canBeUndone(runOf({ status })), canBeUndone(runOf({ status, mode: 'rollback' }))]).toEqual([true, true])
    expect(canBeUndone(runOf({ status }, 0))).toBe(false)
  })

  test.each(runStatuses.filter((status) => !ended.some((each) => each === status)))(
    'but not while it is %s',
    (status) => {
      expect(canBeUndone(runOf({ status, finished_at: null }))).toBe(false)
    },
  )

  test('but not for a push, which stores no changes', () => {
    expect(canBeUndone(runOf({ trigger: 'push' }))).toBe(false)
  })

  test('but not for a retired connector', () => {
    expect(canBeUndone(runOf({ connector_id: null }))).toBe(false)
  })
})

test('a connector is named by its key, and not by the placeholder after it is retired', () => {
  const key = 'retired-01a1ff18-0000-7000-8000-000000000001'
  expect([runOf({}), runOf({ connector_key: 'retired-staff' }), runOf({ connector_key: key })].map(keyOf)).toEqual([
    'hr',
    'retired-staff',
    undefined,
  ])
  expect(keyOf(runOf({ connector_key: null }))).toBeUndefined()
})
