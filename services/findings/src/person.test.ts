import { expect, test } from 'vitest'
import { comparePeople } from './person.ts'

const [id, other] = ['019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002']

test.each([
  ['same', { person_id: id }, { person_id: id, name: 'Bo' }],
  ['same', { email: 'ada@x.example' }, { email: 'ADA@x.example', name: 'Bo' }],
  ['same', { person_id: id, email: 'ada@x.example' }, { person_id: other, email: 'ada@x.example' }],
  ['same', { name: 'Ada  Lund' }, { name: ' ada lund ', email: 'bo@x.example' }],
  ['another', { person_id: id, name: 'Ada' }, { person_id: other, name: 'Ada' }],
  ['another', { email: 'ada@x.example', name: 'Ada' }, { email: 'ada2@x.example', name: 'Ada' }],
  ['another', { name: 'Ada' }, { name: 'Bo' }],
  ['unknown', { email: 'ada@x.example' }, { name: 'Ada' }],
  ['unknown', { email: 'ada@x.example' }, { person_id: id }],
  ['unknown', { name: 'Ada' }, null],
] as const)('%s: %o and %o, whichever comes first', (expected, a, b) => {
  expect([comparePeople(a, b), comparePeople(b, a)]).toEqual([expected, expected])
})
