import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const readme = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8')
const model = readFileSync(join(import.meta.dirname, 'revocation.pml'), 'utf8')

/** Rows of the table of transitions: numbers, file, and names that stand in it. */
const rows = [...readme.matchAll(/^\| ((?:\[\d+\] ?)+)\| [^|]+\| (?:`([^`]+)`|none) \| ([^|]*)\|$/gm)].map((match) => ({
  numbers: [...(match[1] ?? '').matchAll(/\d+/g)].map(Number),
  file: match[2],
  names: [...(match[3] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
}))
const numbered = [...model.matchAll(/\/\* \[(\d+)\] \*\/ d_step \{/g)].map(([, number]) => Number(number))

/** Whether a name stands in a text as such, and not as a part of another. */
function holds(text: string, name: string): boolean {
  return new RegExp(String.raw`(?<!\w)${name.replaceAll(/\W/g, String.raw`\$&`)}(?!\w)`).test(text)
}

test('a name stands where no letter goes before or after it', () => {
  expect(holds('await lease.keep(one)', 'keep')).toBe(true)
  expect(holds('await lease.keepAll(one)', 'keep')).toBe(false)
  expect(holds('await lease.bookkeep(one)', 'keep')).toBe(false)
})

test('each transition of the model has a number, and its row in the README', () => {
  const all = numbered.map((_number, at) => at + 1)
  expect(model.match(/\bd_step \{/g)).toHaveLength(numbered.length)
  expect(numbered).toEqual(all)
  expect(rows.flatMap(({ numbers }) => numbers).toSorted((a, b) => a - b)).toEqual(all)
})

test.each(rows)('what the row of $numbers names stands in $file', ({ file, names }) => {
  const text = file === undefined ? '' : readFileSync(join(root, file), 'utf8')
  expect(names.filter((name) => !holds(text, name))).toEqual([])
  expect(names.length > 0).toBe(file !== undefined)
})
