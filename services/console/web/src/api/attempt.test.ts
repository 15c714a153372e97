import { expect, test } from 'vitest'
import { createAttempt } from './attempt.ts'
import { ApiProblem } from './request.ts'

const problem = (status: number, code: string) =>
  new ApiProblem({ type: 'about:blank', status, code, title: 'No', instance: 'a' })

test.each([
  ['the connection broke', new TypeError('fetch failed')],
  ['the gateway had no answer in time', problem(504, 'gateway_timeout')],
  ['a service was away', problem(503, 'service_unavailable')],
  ['the request took too long', problem(408, 'request_timeout')],
  ['the first try has no answer yet', problem(409, 'request_in_progress')],
])('what is sent again because %s is the same request', (_why, error) => {
  const attempt = createAttempt()
  const first = attempt.idOf({ label: 'a', scopes: ['read:findings'] })
  attempt.failed(error)
  expect(attempt.idOf({ label: 'a', scopes: ['read:findings'] })).toBe(first)
  expect(attempt.idOf({ label: 'b', scopes: ['read:findings'] })).not.toBe(first)
})

test.each([
  ['refused', problem(422, 'invalid_content')],
  ['known to have been carried out', problem(409, 'conflict')],
])('what was %s is another request when it is sent again', (_how, error) => {
  const attempt = createAttempt()
  const first = attempt.idOf({ label: 'a' })
  attempt.failed(error)
  expect(attempt.idOf({ label: 'a' })).not.toBe(first)
})
