import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { areas } from './areas.ts'
import type { Mutant, Reason } from './judge.ts'
import {
  type Result,
  filesOf,
  notRun,
  requiredScore,
  resultOf,
  resultsSchema,
  sourceOf,
  stateOfTests,
  sumOf,
  tableOf,
  withTable,
} from './results.ts'

const root = join(import.meta.dirname, '..', '..')
const read = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8')
const results = resultsSchema.parse(JSON.parse(read('results.json')))
const reasons: Reason[] = JSON.parse(read('survivors.json'))

const mutant: Mutant = {
  file: 'a.ts',
  line: 1,
  mutator: 'ConditionalExpression',
  original: 'one < two',
  replacement: 'true',
  status: 'Survived',
}
const about = { date: '2026-11-22', source: '0123456789ab', minutes: 1.5 }

describe('what is kept of a run over one file', () => {
  test('is how much was noticed, and what was not', () => {
    const statuses = ['Survived', 'NoCoverage', 'Killed', 'Killed', 'Timeout', 'CompileError', 'Ignored']
    const result = resultOf(
      statuses.map((status) => ({ ...mutant, status })),
      about,
    )
    expect(result).toMatchObject({ ...about, noticed: 3, timedOut: 1 })
    expect(result.survivors.map(({ status }) => status)).toEqual(['Survived', 'NoCoverage'])
    expect(resultsSchema.parse({ area: { 'a.ts': result } })).toEqual({ area: { 'a.ts': result } })
  })

  test('is summed with that of the other files of its area, of whatever day', () => {
    const kept: Record<string, Result> = {
      'a.ts': resultOf([mutant, ...Array.from({ length: 8 }, () => ({ ...mutant, status: 'Killed' }))], about),
      'b.ts': resultOf([mutant, { ...mutant, status: 'Timeout' }], { ...about, date: '2026-11-24' }),
    }
    const reason = { file: 'b.ts', original: 'one < two', replacements: ['true'], because: 'it always is' }
    expect(sumOf(kept, [reason])).toEqual({ noticed: 9, timedOut: 1, unnoticed: 2, score: 81.8, unexplained: 1 })
    const rows = tableOf({ authorize: kept }, [reason])
    expect(rows).toContain('| authorize | 2 | 9 of 11, 1 by never ending | 81.8 % | 1 | 2026-11-22 to 2026-11-24 |')
    expect(rows).toContain('| api-key | 0 | not run | | | |')
  })

  test('is of a file as it was, and none of one that has changed or was never altered', () => {
    const files = ['test/mutation/areas.ts', 'test/mutation/judge.ts', 'test/mutation/run.ts']
    const [same = '', changed = '', never = ''] = files
    const kept = {
      [same]: resultOf([mutant], { ...about, source: sourceOf(root, same) }),
      [changed]: resultOf([mutant], about),
    }
    const area = { name: 'any', mutate: files, tests: ['test/mutation/*.test.ts'], needsServers: false }
    expect(notRun(area, kept, root)).toEqual([changed, never])
  })

  test('is of the tests as they were: those that were taken away or changed since may notice less', () => {
    const file = 'test/mutation/judge.ts'
    const area = { name: 'any', mutate: [file], tests: ['test/mutation/*.test.ts'], needsServers: false }
    const few = { ...area, testsOf: { [file]: ['test/mutation/*.test.ts', '!test/mutation/results.test.ts'] } }
    const keptBy = (tests: string) => ({
      [file]: resultOf([mutant], { ...about, source: sourceOf(root, file), tests }),
    })
    const [all, one] = [stateOfTests(area, file, root), stateOfTests(few, file, root)]
    expect(one).toBe(sourceOf(root, 'test/mutation/judge.test.ts'))
    expect([notRun(area, keptBy(all), root), notRun(few, keptBy(one), root)]).toEqual([[], []])
    expect([notRun(area, keptBy(one), root), notRun(few, keptBy(all), root)]).toEqual([[file], [file]])
  })

  test('takes the place of the last table', () => {
    const [head = '', line = ''] = tableOf({}, [])
    expect(withTable(`a\n${head}\n${line}\n| old |\n\nb\n| c |\n`, [head, line, '| new |'])).toBe(
      `a\n${head}\n${line}\n| new |\n\nb\n| c |\n`,
    )
    expect(() => withTable('a', [head])).toThrow('no table')
  })
})

describe('the areas', () => {
  test('alter files that there are, each in one area, and no test', () => {
    const files = areas.flatMap((area) => filesOf(area, root))
    expect(new Set(files).size).toBe(files.length)
    expect(files.filter((file) => file.endsWith('.test.ts'))).toEqual([])
    for (const { name, mutate } of areas) {
      for (const glob of mutate.filter((one) => !one.startsWith('!'))) {
        expect(filesOf({ mutate: [glob] }, root), `${name} ${glob}`).not.toEqual([])
      }
    }
  })

  test('name tests that there are, of files that they alter', () => {
    for (const area of areas) {
      const files = filesOf(area, root)
      expect(files, area.name).toEqual(expect.arrayContaining(Object.keys(area.testsOf ?? {})))
      for (const file of files) expect(() => stateOfTests(area, file, root), file).not.toThrow()
    }
    const mistyped = { tests: ['test/mutation/*.test.ts', 'test/mutation/jugde.test.ts'] }
    expect(() => stateOfTests(mistyped, 'any', root)).toThrow('nothing is called test/mutation/jugde.test.ts')
  })

  test('have their table in README.md, as it follows from results.json', () => {
    const text = read('README.md')
    expect(withTable(text, tableOf(results, reasons))).toBe(text)
  })

  // An area is run whole when each of its files was, as it is now.
  const wholeOrNot = Object.groupBy(areas, (area) =>
    notRun(area, results[area.name] ?? {}, root).length === 0 ? 'whole' : 'not whole',
  )

  test('that were run whole have their score, and a reason for each survivor', () => {
    for (const { name } of wholeOrNot.whole ?? []) {
      const { score, unexplained } = sumOf(results[name] ?? {}, reasons)
      expect(score, name).toBeGreaterThanOrEqual(requiredScore)
      expect(unexplained, `survivors of ${name} without a reason`).toBe(0)
    }
  })

  test('that were not, or of which a file has changed since, are named in ASSURANCE.md as not shown', () => {
    const [, notShown = ''] = readFileSync(join(root, 'ASSURANCE.md'), 'utf8').split('\n## Not shown\n')
    const [, told = ''] =
      /^- Not run whole, or changed since \(`npm run test:mutation`\): ([a-z, -]+)\.$/m.exec(notShown) ?? []
    expect(told).toBe((wholeOrNot['not whole'] ?? []).map(({ name }) => name).join(', '))
  })

  test('have no result of a file that is not there, or that they do not alter', () => {
    const kept = Object.entries(results).flatMap(([area, files]) => Object.keys(files).map((file) => [area, file]))
    const wrong = kept.filter(([name = '', file = '']) => {
      const area = areas.find((one) => one.name === name)
      return area === undefined || !existsSync(join(root, file)) || !filesOf(area, root).includes(file)
    })
    expect(wrong).toEqual([])
  })
})
