import { expect, test } from 'vitest'
import { faultsOfPeople } from './rules.ts'

test('an address of two rows is reported with its owner, because an index in a batch is not a row of the source', () => {
  const people = [
    { external_id: 'HR-1', name: 'Ada', email: 'ada@x.example', active: true },
    { external_id: 'HR-2', name: 'Ada', email: 'Ada@x.example', active: true },
  ]
  const detail = 'is already the address of an earlier row, "HR-1"'
  expect(faultsOfPeople(people)).toEqual([{ index: 1, field: 'email', code: 'duplicate', detail }])
})

test('an inactive row may have the address of another row', () => {
  const people = [
    { external_id: 'HR-1', name: 'Ada', email: 'ada@x.example', active: false },
    { external_id: 'HR-2', name: 'Ada', email: 'ada@x.example', active: true },
    { external_id: 'HR-3', name: 'Ada', email: 'ada@x.example', active: false },
  ]
  expect(faultsOfPeople(people)).toEqual([])
})
