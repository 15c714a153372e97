import { expect, test } from 'vitest'
import { createAttempt } from './attempt.ts'
import { ApiProblem } from './request.ts'

const problem = (status: number, code: string) =>
  new ApiProblem({ type: 'about:blank', status, code, title: 'No', instance: 'a' })

/** Sends a request that fails, or succeeds where no error is given, and returns the id under which it was sent. */
async function sentAs(attempt: ReturnType<typeof createAttempt>, request: unknown, error?: Error): Promise<string> {
  let sent = ''
  const sending = attempt.carryOut(request, async (id) => {
    sent = id
    return error === undefined ? await Promise.resolve(id) : await Promise.reject(error)
  })
  if (error === undefined) await sending
  else await expect(sending).rejects.toBe(error)
  return sent
}

test.each([
  ['the connection broke', new TypeError('fetch failed')],
  ['the person stopped waiting', new DOMException('stopped', 'AbortError')],
  ['the gateway had no answer in time', problem(504, 'gateway_timeout')],
  ['a service was away', problem(503, 'service_unavailable')],
  ['the request took too long', problem(408, 'request_timeout')],
  ['the first try has no answer yet', problem(409, 'request_in_progress')],
])('a request repeated because %s has the same Idempotency-Key', async (_why, error) => {
  const attempt = createAttempt()
  const first = await sentAs(attempt, { label: 'a', scopes: ['read:findings'] }, error)
  expect(attempt.isOpen()).toBe(true)
  expect(await sentAs(attempt, { label: 'a', scopes: ['read:findings'] }, error)).toBe(first)
  expect(await sentAs(attempt, { label: 'b', scopes: ['read:findings'] }, error)).not.toBe(first)
})

test.each([
  ['refused', problem(422, 'invalid_content')],
  ['known to have been carried out', problem(409, 'conflict')],
  ['answered', undefined],
])('a repeated request that was %s has a new Idempotency-Key', async (_how, error) => {
  const attempt = createAttempt()
  const first = await sentAs(attempt, { label: 'a' }, error)
  expect(attempt.isOpen()).toBe(false)
  expect(await sentAs(attempt, { label: 'a' })).not.toBe(first)
})
