import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { transitions } from './transitions.ts'

const root = join(import.meta.dirname, '..', '..')
const model = readFileSync(join(import.meta.dirname, 'revocation.pml'), 'utf8')

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

test('each transition of the model has a number and a row in transitions.ts', () => {
  const all = numbered.map((_number, at) => at + 1)
  expect(model.match(/\bd_step \{/g)).toHaveLength(numbered.length)
  expect(numbered).toEqual(all)
  expect(transitions.flatMap(({ numbers }) => numbers).toSorted((a, b) => a - b)).toEqual(all)
})

test.each(transitions)('$file contains the names in the row of $numbers', ({ file, names = [] }) => {
  const text = file === undefined ? '' : readFileSync(join(root, file), 'utf8')
  expect(names.filter((name) => !holds(text, name))).toEqual([])
  expect(names.length > 0).toBe(file !== undefined)
})
