import { describe, expect, test } from 'vitest'
import { findUntimely } from './rules.ts'

describe('the dates that a sender states', () => {
  const now = Date.parse('2026-03-31T22:00:00Z')

  test.each([
    [{}, undefined],
    [{ collected_at: '2026-03-31T22:00:00Z' }, undefined],
    [{ collected_at: '2026-04-01T00:05:00+02:00' }, undefined],
    [{ collected_at: '2026-04-01T00:05:01+02:00' }, 'collected_at'],
    [{ collected_at: '2026-03-31T23:00:00Z' }, 'collected_at'],
    [{ collected_at: '2026-03-31T23:00:00+02:00' }, undefined],
    [{ evidence_date: '2026-03-31' }, undefined],
    [{ evidence_date: '2026-04-01' }, undefined],
    [{ evidence_date: '2026-04-02' }, 'evidence_date'],
    [{ evidence_date: '9999-12-31' }, 'evidence_date'],
  ])('%o is rejected if %s is in the future', (details, member) => {
    expect(findUntimely(details, now)?.member).toBe(member)
  })
})
