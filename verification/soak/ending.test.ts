import { describe, expect, test } from 'vitest'
import { type Seen, endingOf } from './ending.ts'
import { type Series, listUnrecorded } from './figures.ts'

const well: Seen = { missing: [], verdicts: ['flat', 'flat'], faults: 0, refusedAsRevoked: 5 }
const codeOf = (other: Partial<Seen>): number => endingOf({ ...well, ...other }).exitCode

describe('a soak', () => {
  test('ends with 0 if all figures are flat and no answer was wrong', () => {
    expect(endingOf(well)).toEqual({ exitCode: 0, text: '2 of 2 figures flat', isJudged: true })
  })

  test('ends with 1 if a figure rises or is missing, or an answer was wrong', () => {
    expect(codeOf({ verdicts: ['flat', 'rises'] })).toBe(1)
    expect(codeOf({ verdicts: ['flat', 'unread'] })).toBe(1)
    expect(codeOf({ faults: 1 })).toBe(1)
    expect(codeOf({ refusedAsRevoked: 0 })).toBe(1)
    expect(endingOf({ ...well, missing: ['Redis: keys'] })).toMatchObject({
      exitCode: 1,
      text: '2 of 2 figures flat; never noted: Redis: keys',
    })
    expect(codeOf({ verdicts: ['unclear', 'rises'] })).toBe(1)
    expect(codeOf({ verdicts: [undefined, undefined], faults: 1 })).toBe(1)
  })

  test('ends with 2 if it cannot tell: too much noise, too short, or no figures', () => {
    expect(codeOf({ verdicts: ['flat', 'unclear'] })).toBe(2)
    expect(endingOf({ ...well, verdicts: [undefined, undefined] })).toEqual({
      exitCode: 2,
      text: 'too short to judge what grows',
      isJudged: false,
    })
    expect(codeOf({ verdicts: [] })).toBe(2)
  })
})

const series = (part: string, ...kinds: Series['kind'][]): Series[] => kinds.map((kind) => ({ part, kind, points: [] }))

test('a figure that was never recorded is named', () => {
  const all = [
    ...series('keys', 'heap after collection', 'resident memory after collection', 'file descriptors'),
    ...series('PostgreSQL', 'connections', 'memory of sessions'),
    ...series('Redis', 'keys', 'keys that stay for ever', 'memory', 'connections'),
  ]
  expect(listUnrecorded(['keys'], all)).toEqual([])
  expect(listUnrecorded(['keys', 'sync'], all)).toEqual([
    'sync: heap after collection',
    'sync: resident memory after collection',
    'sync: file descriptors',
  ])
  for (const one of all)
    expect(
      listUnrecorded(
        ['keys'],
        all.filter((other) => other !== one),
      ),
    ).toEqual([`${one.part}: ${one.kind}`])
})
