import { expect, test } from 'vitest'
import { negotiate } from './accept.ts'

const offered = ['application/json', 'application/x-ndjson', 'text/csv']

test.each([
  'text/html',
  'application/json;q=0',
  'text/csv;q=0, image/*',
  'application/xml, */*;q=0',
  'a',
  ';',
  'text/csv;q=2',
])('nothing will do for %j', (accept) => {
  expect(negotiate(accept, offered)).toBeUndefined()
})

test.each([
  [undefined, 'application/json'],
  ['', 'application/json'],
  [' ', 'application/json'],
  ['*/*', 'application/json'],
  ['text/html, */*;q=0.1', 'application/json'],
  ['application/json, text/csv;q=0.9', 'application/json'],
  ['text/csv;q=0.9, application/json;q=0.1', 'text/csv'],
  ['text/*', 'text/csv'],
  ['TEXT/CSV', 'text/csv'],
  ['application/*, application/json;q=0.2', 'application/x-ndjson'],
  ['text/csv; charset=utf-8', 'text/csv'],
])('%j is answered with %s', (accept, mediaType) => {
  expect(negotiate(accept, offered)).toBe(mediaType)
})
