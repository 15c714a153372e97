import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const table = readFileSync(join(import.meta.dirname, 'transitions.md'), 'utf8')
const model = readFileSync(join(import.meta.dirname, 'revocation.pml'), 'utf8')

/** The rows of the table: numbers, file, and the names that it must contain. */
const rows = [...table.matchAll(/^\| ((?:\[\d+\] ?)+)\| [^|]+\| (?:`([^`]+)`|none) \| ([^|]*)\|$/gm)].map((match) => ({
  numbers: [...(match[1] ?? '').matchAll(/\d+/g)].map(Number),
  file: match[2],
  names: [...(match[3] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
}))
const numbered = [...model.matchAll(/\/\* \[(\d+)\] \*\/ d_step \{/g)].map(([, number]) => Number(number))

/** Returns whether a text contains a name, but not only as a part of a longer name. */
function holds(text: string, name: string): boolean {
  return new RegExp(String.raw`(?<!\w)${name.replaceAll(/\W/g, String.raw`\$&`)}(?!\w)`).test(text)
}

test('a name that is part of a longer name does not count', () => {
  expect(holds('await lease.keep(one)', 'keep')).toBe(true)
  expect(holds('await lease.keepAll(one)', 'keep')).toBe(false)
  expect(holds('await lease.bookkeep(one)', 'keep')).toBe(false)
})

test('each transition of the model has a number and a row in transitions.md', () => {
  const all = numbered.map((_number, at) => at + 1)
  expect(model.match(/\bd_step \{/g)).toHaveLength(numbered.length)
  expect(numbered).toEqual(all)
  expect(rows.flatMap(({ numbers }) => numbers).toSorted((a, b) => a - b)).toEqual(all)
})

test.each(rows)('$file contains the names in the row of $numbers', ({ file, names }) => {
  const text = file === undefined ? '' : readFileSync(join(root, file), 'utf8')
  expect(names.filter((name) => !holds(text, name))).toEqual([])
  expect(names.length > 0).toBe(file !== undefined)
})
