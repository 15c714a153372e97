import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { mergeReports } from '../merge-reports.mjs'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reports-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function write(name: string, content: unknown): void {
  writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
}

const read = (name: string): unknown => JSON.parse(readFileSync(join(folder, name), 'utf8'))

const report = (file: string, success: boolean) => ({
  numTotalTests: 2,
  numFailedTests: success ? 0 : 1,
  startTime: 5,
  success,
  testResults: [{ name: file, assertionResults: [{ status: 'passed' }, { status: success ? 'passed' : 'failed' }] }],
})

const merge = (): void => mergeReports(folder, { from: 'late', into: 'all' })

describe('the reports of two runs of tests', () => {
  test.each([
    [true, true],
    [true, false],
    [false, true],
  ])('are merged into one that succeeded only if both did: %s, %s', (first, second) => {
    write('all.json', report('a', first))
    write('late.json', report('b', second))
    merge()
    expect(read('all.json')).toEqual({
      numTotalTests: 4,
      numFailedTests: first && second ? 0 : 1,
      startTime: 5,
      success: first && second,
      testResults: [...report('a', first).testResults, ...report('b', second).testResults],
    })
    expect(read('all.errors.json')).toEqual([])
  })

  test('keep the errors outside of tests of both', () => {
    for (const name of ['all', 'late']) {
      write(`${name}.json`, report(name, true))
      write(`${name}.errors.json`, [{ text: name }])
    }
    merge()
    expect(read('all.errors.json')).toEqual([{ text: 'all' }, { text: 'late' }])
    expect(readdirSync(folder).toSorted()).toEqual(['all.errors.json', 'all.json'])
  })

  test.each([
    ['the first', { 'late.json': report('b', true) }],
    ['the second', { 'all.json': report('a', true) }],
    ['the second, half-written,', { 'all.json': report('a', true), 'late.json': '{"testRes' }],
  ])('are removed if %s is missing', (_which, there) => {
    for (const [name, content] of Object.entries(there)) write(name, content)
    expect(merge).toThrow(/no such file|JSON/)
    expect(existsSync(join(folder, 'all.json'))).toBe(false)
  })
})
