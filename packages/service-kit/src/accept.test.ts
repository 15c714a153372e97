import { expect, test } from 'vitest'
import { acceptsGzip, chooseCoding, negotiate } from './accept.ts'

const offered = ['application/json', 'application/x-ndjson', 'text/csv']

test.each([
  'text/html',
  'application/json;q=0',
  'text/csv;q=0, image/*',
  'application/xml, */*;q=0',
  'a',
  ';',
  'text/csv;q=2',
])('no media type matches %j', (accept) => {
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

test.each(['gzip', 'br, gzip', 'GZIP;q=0.1', '*', 'br;q=1, *;q=0.1'])('an answer is compressed for %j', (header) => {
  expect(acceptsGzip(header)).toBe(true)
})

test.each([undefined, '', 'br', 'identity', 'gzip;q=0', 'gzip; q=0.000, *', '*;q=0', 'x-gzips', 'gzip;q=x'])(
  'an answer is sent uncompressed for %j',
  (header) => {
    expect(acceptsGzip(header)).toBe(false)
  },
)

test.each([
  ['gzip, deflate, br', 'br'],
  ['gzip, br;q=0.5', 'gzip'],
  ['gzip', 'gzip'],
  ['br;q=0, *', 'gzip'],
  ['*', 'br'],
  ['identity', undefined],
  ['', undefined],
  [undefined, undefined],
])('of br and gzip %j gets %s', (header, coding) => {
  expect(chooseCoding(header, ['br', 'gzip'])).toBe(coding)
})
