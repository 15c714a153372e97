import { expect, test } from 'vitest'
import { comparePeople, dropFormerPerson } from './person.ts'
import { mergePatch } from './merge-patch.ts'

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

const ada = { person_id: id, email: 'ada@x.example', name: 'Ada Lund' }
test.each([
  ['another address', ada, { email: 'bo@x.example' }, { email: 'bo@x.example' }],
  ['another id', ada, { person_id: other }, { person_id: other }],
  [
    'an id beside another address',
    ada,
    { person_id: id, email: 'bo@x.example' },
    { person_id: id, email: 'bo@x.example' },
  ],
  [
    'another id beside the address',
    ada,
    { person_id: other, email: ada.email },
    { person_id: other, email: ada.email },
  ],
  ['an address where there was a name', { name: 'Ada' }, { email: 'bo@x.example' }, { email: 'bo@x.example' }],
  ['an address where there was an id', { person_id: id }, { email: 'bo@x.example' }, { email: 'bo@x.example' }],
  ['a name in place of the address', ada, { email: null, name: 'Bo' }, { name: 'Bo' }],
  ['a name in place of the id', ada, { person_id: null, name: 'Bo' }, { name: 'Bo' }],
])('%s is a different person without old details', (_what, stored, patch, after) => {
  expect(dropFormerPerson(stored, patch, mergePatch(stored, patch))).toEqual(after)
})

test.each([
  ['another name', ada, { name: 'Ada Berg' }, { ...ada, name: 'Ada Berg' }],
  ['the same address', ada, { email: 'ADA@x.example' }, { ...ada, email: 'ADA@x.example' }],
  ['the same id', ada, { person_id: id, name: 'Ada Berg' }, { ...ada, name: 'Ada Berg' }],
  [
    'an id that the address has',
    { email: ada.email, name: 'Ada' },
    { email: ada.email, person_id: id },
    { ...ada, name: 'Ada' },
  ],
  [
    'an address that the id has',
    { person_id: id, name: 'Ada' },
    { person_id: id, email: ada.email },
    { ...ada, name: 'Ada' },
  ],
  ['no address any more', ada, { email: null }, { person_id: id, name: 'Ada Lund' }],
  ['no address, and the same name', ada, { email: null, name: 'ADA lund' }, { person_id: id, name: 'ADA lund' }],
  ['nothing', ada, {}, ada],
])('%s is the same person, and what is not named stays', (_what, stored, patch, after) => {
  expect(dropFormerPerson(stored, patch, mergePatch(stored, patch))).toEqual(after)
})

test.each([null, undefined])('a patch of a missing person (%s) is not changed', (nobody) => {
  expect(dropFormerPerson(nobody, { name: 'Bo' }, { name: 'Bo' })).toEqual({ name: 'Bo' })
  expect(dropFormerPerson(ada, nobody, nobody)).toEqual(nobody)
})
