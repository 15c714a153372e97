import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { anyOf, pageQuery } from './page.ts'

const query = z.strictObject({ ...pageQuery, state: anyOf(['active', 'revoked']).optional() })

describe('a page is rejected', () => {
  test.each<[string, Record<string, unknown>]>([
    ['a limit of 0', { limit: '0' }],
    ['a limit of 1001', { limit: '1001' }],
    ['a negative limit', { limit: '-1' }],
    ['an empty limit', { limit: '' }],
    ['a limit in words', { limit: 'all' }],
    ['a limit with a fraction', { limit: '1.5' }],
    ['a limit with an exponent', { limit: '1e2' }],
    ['a limit in hexadecimal', { limit: '0x10' }],
    ['a limit with a leading zero', { limit: '010' }],
    ['a limit with white space', { limit: ' 10' }],
    ['a limit with a line feed', { limit: '10\n' }],
    ['a huge limit', { limit: '9'.repeat(400) }],
    ['two limits', { limit: ['10', '20'] }],
    ['an empty cursor', { cursor: '' }],
    ['a cursor of 2049 characters', { cursor: 'c'.repeat(2049) }],
    ['a count that is neither true nor false', { count: '1' }],
    ['an unknown parameter', { offset: '10' }],
    ['an unknown value of a filter', { state: 'deleted' }],
    ['an unknown value among known ones', { state: 'active,deleted' }],
    ['an empty filter', { state: '' }],
    ['a filter with more values than there are', { state: 'active,revoked,active' }],
  ])('with %s', (_name, input) => {
    expect(query.safeParse(input).success).toBe(false)
  })
})

describe('a page', () => {
  test('has 100 resources by default', () => {
    expect(query.parse({})).toEqual({ limit: 100 })
  })

  test.each([1, 10, 999, 1000])('can have %d resources', (limit) => {
    expect(query.parse({ limit: String(limit) }).limit).toBe(limit)
  })

  test('can be filtered by several values, repeated or comma-separated', () => {
    expect(query.parse({ state: 'active,revoked' }).state).toEqual(['active', 'revoked'])
    expect(query.parse({ state: ['active', 'revoked'] }).state).toEqual(['active', 'revoked'])
    expect(query.parse({ state: 'active' }).state).toEqual(['active'])
  })
})
