import { expect, test } from 'vitest'
import { findNearest } from './nearest.ts'

const names = ['severity', 'status', 'external_id', 'title', '-severity', 'id']

test.each([
  ['tittle', 'title'],
  ['Status', 'status'],
  ['state', 'status'],
  ['externalId', 'external_id'],
  ['external-id', 'external_id'],
  ['ID', 'id'],
  ['statsu', 'status'],
])('%s is probably meant to be %s', (given, meant) => {
  expect(findNearest(given, names)).toBe(meant)
})

test.each(['page', '', 'x', 'unrelated', `title${'e'.repeat(100)}`])('%s is like no name', (given) => {
  expect(findNearest(given, names)).toBeUndefined()
})
