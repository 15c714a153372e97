import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { stepsOf } from './patch-group.ts'

const add = (...ids: string[]) => ({ op: 'Add', path: 'members', value: ids.map((value) => ({ value })) })
const remove = (id: string) => ({ op: 'remove', path: `members[value eq "${id}"]` })

test('consecutive operations on members become one step', () => {
  const [ada, bo, cy] = [randomUUID(), randomUUID(), randomUUID()]
  const many = Array.from({ length: 1000 }, () => randomUUID())
  expect(stepsOf({ Operations: many.map((id) => add(id)) })).toEqual([{ kind: 'add', ids: many }])
  expect(stepsOf({ Operations: many.map((id) => remove(id)) })).toEqual([{ kind: 'remove', ids: many }])
  const Operations = [add(ada), add(bo, cy), remove(ada), { op: 'Replace', path: 'members', value: [] }, add(ada)]
  expect(stepsOf({ Operations })).toEqual([
    { kind: 'add', ids: [ada, bo, cy] },
    { kind: 'remove', ids: [ada] },
    { kind: 'replace', ids: [] },
    { kind: 'add', ids: [ada] },
  ])
})
