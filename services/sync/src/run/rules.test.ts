import { type Run, runCountsSchema, safetySchema } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { breachesOf, actionsOf } from './rules.ts'

const counts = runCountsSchema.parse(Object.fromEntries(Object.keys(runCountsSchema.shape).map((name) => [name, 0])))
const safety = safetySchema.parse({})
const broken = (impact: object, policy: 'ignore' | 'flag' | 'deactivate' = 'flag') =>
  breachesOf(safety, policy, {
    valid: 100,
    known: 100,
    missing: 0,
    deactivated: 0,
    lockedOut: 0,
    changed: 0,
    ...impact,
  }).map(({ limit }) => limit)

describe('the limits of a connector', () => {
  test.each([
    [{ valid: 0 }, ['min_rows']],
    [{ missing: 11 }, ['max_deactivate_pct']],
    [{ known: 10_000, missing: 51 }, ['max_deactivate']],
    [{ known: 100, missing: 61 }, ['max_deactivate', 'max_deactivate_pct']],
    [{ changed: 41 }, ['max_change_pct']],
    [{ deactivated: 11, changed: 11 }, ['max_deactivate_pct']],
    [{ known: 0, changed: 41 }, ['max_change_pct']],
    [{ known: 0, deactivated: 11, changed: 11 }, ['max_deactivate_pct']],
    [{ known: 10_000, missing: 1, deactivated: 51, changed: 51 }, ['max_deactivate']],
    [{ lockedOut: 11 }, ['max_deactivate_pct']],
    [{ known: 0, lockedOut: 11 }, ['max_deactivate_pct']],
    [{ known: 10_000, deactivated: 26, lockedOut: 25, changed: 26 }, ['max_deactivate']],
  ])('are exceeded by %j', (impact, limits) => {
    expect(broken(impact)).toEqual(limits)
  })

  test('accept changes on the limit, and a first import', () => {
    expect(broken({ missing: 10, changed: 40 })).toEqual([])
    expect(broken({ known: 0, valid: 100_000, changed: 0 })).toEqual([])
    expect(broken({ known: 0, valid: 100_000, changed: 500 })).toEqual([])
    expect(broken({ known: 0, lockedOut: 10 })).toEqual([])
    expect(broken({ known: 0, valid: 0 })).toEqual(['min_rows'])
  })

  test('accept everything at 100 %, including missing rows and those of others', () => {
    const all = { ...safety, min_rows: 0, max_deactivate: 1000, max_deactivate_pct: 100, max_change_pct: 100 }
    const impact = { valid: 3, known: 1, missing: 1, deactivated: 2, lockedOut: 0, changed: 3 }
    expect(breachesOf(all, 'deactivate', impact)).toEqual([])
    expect(breachesOf({ ...all, max_change_pct: 99 }, 'deactivate', impact)).toEqual([
      { limit: 'max_change_pct', actual: 100, allowed: 99 },
    ])
  })

  test.each([
    [10, { known: 30_000, missing: 3001 }, 10.01],
    [10, { known: 30_000, missing: 3100 }, 10.33],
    [0, { known: 5_000_000, missing: 1 }, 0.01],
    [10.005, { known: 1_000_000, missing: 100_051 }, 10.01],
    [99.99, { known: 3_000_000, missing: 2_999_701 }, 100],
  ])('of %d %% that are barely exceeded, by %j, show a percentage above the limit', (allowed, impact, actual) => {
    const narrow = { ...safety, min_rows: 0, max_deactivate: 10_000_000, max_deactivate_pct: allowed }
    const all = { valid: 0, deactivated: 0, lockedOut: 0, changed: 0, ...impact }
    expect(breachesOf(narrow, 'flag', all)).toEqual([{ limit: 'max_deactivate_pct', actual, allowed }])
  })

  test('require approval if the source itself makes rows inactive, under every policy', () => {
    for (const policy of ['ignore', 'flag', 'deactivate'] as const) {
      expect(broken({ deactivated: 11, changed: 11 }, policy)).toEqual(['max_deactivate_pct'])
    }
    const half = { missing: 10, deactivated: 10, changed: 10 }
    expect(broken(half, 'ignore')).toEqual([])
    expect(broken(half, 'deactivate')).toEqual([])
    expect(broken(half, 'flag')).toEqual(['max_deactivate_pct'])
  })

  test('require approval for missing rows only if the policy changes them', () => {
    expect(broken({ missing: 90 }, 'ignore')).toEqual([])
    expect(broken({ missing: 90 }, 'deactivate')).toEqual(['max_deactivate', 'max_deactivate_pct'])
  })
})

const askedOf = (
  status: Run['status'],
  applied = 0,
  connector_id: string | null = 'c',
  trigger: Run['trigger'] = 'api',
) => actionsOf({ status, connector_id, trigger, counts: { ...counts, applied } })

describe('the actions on a run', () => {
  test('that waits for approval are approve and cancel', () => {
    expect(askedOf('needs_approval')).toEqual(['approve', 'cancel'])
  })

  test.each(['queued', 'fetching', 'validating', 'diffing', 'applying'] as const)(
    'that is %s is to cancel it',
    (status) => {
      expect(askedOf(status)).toEqual(['cancel'])
    },
  )

  test('that has ended include undo, if a connector’s run has changed something', () => {
    for (const status of ['succeeded', 'partial', 'failed', 'cancelled'] as const) {
      expect(askedOf(status, 1)).toEqual(['rollback'])
      expect(askedOf(status)).toEqual([])
      expect(askedOf(status, 1, null)).toEqual([])
    }
  })

  test('that is a push are none, whatever it has changed', () => {
    for (const status of ['applying', 'succeeded', 'failed'] as const) {
      expect(askedOf(status, 1, 'c', 'push')).toEqual([])
    }
  })
})
