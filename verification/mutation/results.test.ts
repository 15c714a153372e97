import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { areas } from './areas.ts'
import type { Mutant } from './judge.ts'
import {
  type Result,
  filesOf,
  notRun,
  resultOf,
  resultsSchema,
  sourceOf,
  stateOfTests,
  sumOf,
  tableOf,
} from './results.ts'

const root = join(import.meta.dirname, '..', '..')

const mutant: Mutant = {
  file: 'a.ts',
  line: 1,
  mutator: 'ConditionalExpression',
  original: 'one < two',
  replacement: 'true',
  status: 'Survived',
}
const about = { date: '2026-11-22', source: '0123456789ab', minutes: 1.5 }

describe('the stored result of one file', () => {
  test('contains the counts and the survivors', () => {
    const statuses = ['Survived', 'NoCoverage', 'Killed', 'Killed', 'Timeout', 'CompileError', 'Ignored']
    const result = resultOf(
      statuses.map((status) => ({ ...mutant, status })),
      about,
    )
    expect(result).toMatchObject({ ...about, noticed: 3, timedOut: 1 })
    expect(result.survivors.map(({ status }) => status)).toEqual(['Survived', 'NoCoverage'])
    expect(resultsSchema.parse({ area: { 'a.ts': result } })).toEqual({ area: { 'a.ts': result } })
  })

  test('is summed with the other files of its area, whatever their date', () => {
    const kept: Record<string, Result> = {
      'a.ts': resultOf([mutant, ...Array.from({ length: 8 }, () => ({ ...mutant, status: 'Killed' }))], about),
      'b.ts': resultOf([mutant, { ...mutant, status: 'Timeout' }], { ...about, date: '2026-11-24' }),
    }
    const reason = { file: 'b.ts', original: 'one < two', replacements: ['true'], because: 'it always is' }
    expect(sumOf(kept, [reason])).toEqual({ noticed: 9, timedOut: 1, unnoticed: 2, score: 81.8, unexplained: 1 })
    const rows = tableOf({ authorize: kept }, [reason])
    expect(rows).toContain('| authorize | 2 | 9 of 11, 1 by timeout | 81.8 % | 1 | 2026-11-22 to 2026-11-24 |')
    expect(rows).toContain('| api-key | 0 | not run | | | |')
  })

  test('is valid only for the unchanged file', () => {
    const files = ['verification/mutation/areas.ts', 'verification/mutation/judge.ts', 'verification/mutation/run.ts']
    const [same = '', changed = '', never = ''] = files
    const kept = {
      [same]: resultOf([mutant], { ...about, source: sourceOf(root, same) }),
      [changed]: resultOf([mutant], about),
    }
    const area = { name: 'any', mutate: files, tests: ['verification/mutation/*.test.ts'], needsServers: false }
    expect(notRun(area, kept, root)).toEqual([changed, never])
  })

  test('is valid only for unchanged tests', () => {
    const file = 'verification/mutation/judge.ts'
    const area = { name: 'any', mutate: [file], tests: ['verification/mutation/*.test.ts'], needsServers: false }
    const few = {
      ...area,
      testsOf: { [file]: ['verification/mutation/*.test.ts', '!verification/mutation/results.test.ts'] },
    }
    const keptBy = (tests: string) => ({
      [file]: resultOf([mutant], { ...about, source: sourceOf(root, file), tests }),
    })
    const [all, one] = [stateOfTests(area, file, root), stateOfTests(few, file, root)]
    expect(one).toBe(sourceOf(root, 'verification/mutation/judge.test.ts'))
    expect([notRun(area, keptBy(all), root), notRun(few, keptBy(one), root)]).toEqual([[], []])
    expect([notRun(area, keptBy(one), root), notRun(few, keptBy(all), root)]).toEqual([[file], [file]])
  })
})

describe('the areas', () => {
  test('change existing files, each in one area, and no tests', () => {
    const files = areas.flatMap((area) => filesOf(area, root))
    expect(new Set(files).size).toBe(files.length)
    expect(files.filter((file) => file.endsWith('.test.ts'))).toEqual([])
    for (const { name, mutate } of areas) {
      for (const glob of mutate.filter((one) => !one.startsWith('!'))) {
        expect(filesOf({ mutate: [glob] }, root), `${name} ${glob}`).not.toEqual([])
      }
    }
  })

  test('name existing tests and mutated files', () => {
    for (const area of areas) {
      const files = filesOf(area, root)
      expect(files, area.name).toEqual(expect.arrayContaining(Object.keys(area.testsOf ?? {})))
      for (const file of files) expect(() => stateOfTests(area, file, root), file).not.toThrow()
    }
    const mistyped = { tests: ['verification/mutation/*.test.ts', 'verification/mutation/jugde.test.ts'] }
    expect(() => stateOfTests(mistyped, 'any', root)).toThrow('no file matches verification/mutation/jugde.test.ts')
  })
})
