import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { forbiddenStatements } from '../support/hostile-sql.ts'
import { casesOf, passedCasesSchema, readPromises, withCases } from '../support/assurance.ts'

const root = join(import.meta.dirname, '..', '..')
const text = readFileSync(join(root, 'ASSURANCE.md'), 'utf8')
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))

const quoted = [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
const paths = quoted.filter((name) => /^(?:packages|services|test|bench|deploy)\//.test(name))
const commands = quoted.filter((name) => name.startsWith('npm '))
const faults = z
  .object({ planned: z.int(), missing: z.array(z.string()), outcomes: z.array(z.unknown()) })
  .parse(JSON.parse(readFileSync(join(root, 'bench', 'faults.json'), 'utf8')))
const promises = readPromises(text)
const passed = passedCasesSchema.parse(JSON.parse(readFileSync(join(root, 'bench', 'cases.json'), 'utf8')))

describe('ASSURANCE.md', () => {
  test('names files and folders that there are', () => {
    expect(paths.length).toBeGreaterThan(60)
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  test('names commands that there are', () => {
    const names = commands.flatMap((command) => {
      const name = /^npm (?:run )?([\w:-]+)/.exec(command)?.[1]
      return name === undefined ? [command] : [name]
    })
    expect(new Set(names).size).toBeGreaterThan(3)
    expect(names.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
  })

  test('shows each promise with a test or a command, beside who keeps it', () => {
    expect(promises.length).toBeGreaterThan(30)
    const lacking = promises.filter(
      ({ promise, keeper, shown }) =>
        promise === '' || keeper === '' || !/`(?:npm run [\w:-]+|[\w/.-]+\.test\.ts)`/.test(shown),
    )
    expect(lacking).toEqual([])
  })

  test('gives each promise a figure and the day on which it was true', () => {
    const lacking = promises.filter(
      ({ figure }) => !/\b2\d{3}-\d{2}-\d{2}\b/.test(figure) || !/\d/.test(figure.replaceAll(/\d{4}-\d{2}-\d{2}/g, '')),
    )
    expect(lacking).toEqual([])
  })

  test('says of the tests that it names how many passed in the run that bench/cases.json is of', () => {
    // To change them: test/repository/count-cases.ts.
    const wrong = promises.filter((row) => {
      const cases = casesOf(row, passed)
      return cases !== undefined && !row.figure.startsWith(cases)
    })
    expect(wrong).toEqual([])
    expect(promises.filter((row) => casesOf(row, passed) !== undefined).length).toBeGreaterThan(30)
  })

  test('tells of as many faults as bench/faults.json has, planned, passed and missing', () => {
    const told = [...text.matchAll(/(\d+) of (\d+) are missing/g)].map(([, missing, planned]) =>
      [missing, planned].map(Number),
    )
    expect(told).toEqual(faults.missing.length === 0 ? [] : [[faults.missing.length, faults.planned]])
    expect(text).toContain(`: ${faults.outcomes.length} faults, `)
  })

  test('tells of as many hostile statements as there are', () => {
    expect(text).toContain(`tries ${forbiddenStatements.length} statements of a catalogue`)
  })
})

const record = { date: '2026-11-22', commit: '0123456', files: { 'test/a.test.ts': 3, 'test/b.test.ts': 1234 } }
const rowWith = (shown: string, figure: string): string => `| it holds | \`code\` | ${shown} | ${figure} |`

describe('the cases of a row', () => {
  test('are those of all files that it names, each once, before what else it says', () => {
    const shown = '`test/a.test.ts`, `test/b.test.ts`; again `test/a.test.ts`'
    const changed = rowWith(shown, '1,237 cases on 2026-11-22; 5 ways')
    expect(withCases(rowWith(shown, '5 ways'), record)).toBe(changed)
    expect(withCases(rowWith(shown, ''), record)).toBe(rowWith(shown, '1,237 cases on 2026-11-22'))
    expect(withCases(changed, { ...record, date: '2026-11-23' })).toBe(changed.replace('11-22', '11-23'))
  })

  test('are none where it names no file that the record has', () => {
    const unchanged = rowWith('`npm run bench`, `test/c.test.ts`', '4 %')
    expect(withCases(unchanged, record)).toBe(unchanged)
  })
})
