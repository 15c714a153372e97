import { describe, expect, test } from 'vitest'
import { type RepeatCandidate, possibleRepeats, suggestedSeverity } from './rules.ts'

const candidate = (criteria: string): RepeatCandidate => ({
  id: criteria,
  reference: 'F-2025-0001',
  title: 'Before',
  severity: 'high',
  closed_date: '2025-06-30',
  criteria,
})
const likenesses = (criteria: string, ...others: string[]) =>
  possibleRepeats(criteria, others.map(candidate)).map(({ id, similarity }) => [id, similarity])

describe('possible repeats', () => {
  test('are findings with similar criteria, most similar first, ignoring case and punctuation', () => {
    expect(
      likenesses(
        'Policy 4.2: rights are recertified every quarter.',
        'Backups are tested.',
        'policy 4.2 RIGHTS are recertified every quarter',
        'Policy 4.2: rights are recertified every year',
      ),
    ).toMatchObject([
      ['policy 4.2 RIGHTS are recertified every quarter', 1],
      ['Policy 4.2: rights are recertified every year', expect.any(Number)],
    ])
  })

  test('are empty without comparable or similar criteria', () => {
    expect(likenesses(' -- ', ' -- ', '')).toEqual([])
    expect(likenesses('Policy 4.2', 'Every door is locked at night')).toEqual([])
  })

  test('are limited to five', () => {
    expect(likenesses('The same', ...Array.from({ length: 9 }, () => 'The same'))).toHaveLength(5)
  })
})

describe('the severity of a repeat', () => {
  test('is suggested one step above that of the repeated finding, unless it is already as high', () => {
    expect(suggestedSeverity('medium', 'medium')).toBe('high')
    expect(suggestedSeverity('low', 'critical')).toBe('critical')
    expect(suggestedSeverity('critical', 'critical')).toBeNull()
    expect(suggestedSeverity('high', 'medium')).toBeNull()
    expect(suggestedSeverity('low', undefined)).toBeNull()
  })
})
