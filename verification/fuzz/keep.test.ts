import { expect, test } from 'vitest'
import { sumUp } from './keep.ts'

// The results that `npm run test:fuzz` stores.
test('results count all operations, and separately those that succeeded', () => {
  const tally = new Map([
    [
      'findings.list',
      new Map([
        [200, 30],
        [400, 5],
      ]),
    ],
    ['findings.create', new Map([[422, 7]])],
  ])
  expect(sumUp(tally)).toEqual({
    requests: 42,
    operations: 2,
    carriedOut: 1,
    answers: { 200: 30, 400: 5, 422: 7 },
  })
})
