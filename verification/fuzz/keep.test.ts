import { expect, test } from 'vitest'
import { sumUp } from './keep.ts'

// What `npm run test:fuzz` keeps.
test('what rounds came to is counted over all operations, and what was never carried out is not', () => {
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
