import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { createReadAheadBudget } from './read-ahead-budget.ts'

const kibibyte = 1024

function requestWith(...rawHeaders: string[]): IncomingMessage {
  const request = new IncomingMessage(new Socket())
  request.rawHeaders.push(...rawHeaders)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    request.headers[rawHeaders[at]?.toLowerCase() ?? ''] = rawHeaders[at + 1]
  }
  return request
}

/** How many requests like this one may wait at once. */
function countWithin(bytes: number, ...rawHeaders: string[]): number {
  const budget = createReadAheadBudget(bytes)
  let count = 0
  while (budget.reserve(requestWith(...rawHeaders))) count += 1
  return count
}

test('the larger the waiting requests, the fewer may wait', () => {
  const plain = countWithin(1024 * kibibyte, 'Host', 'a')
  const withLargeHeader = countWithin(1024 * kibibyte, 'X-Long', 'x'.repeat(12 * kibibyte))
  const withSmallBody = countWithin(1024 * kibibyte, 'Content-Length', String(12 * kibibyte))
  const withLargeBody = countWithin(1024 * kibibyte, 'Content-Length', '900000')
  const inChunks = countWithin(1024 * kibibyte, 'Transfer-Encoding', 'chunked')
  expect(plain).toBeGreaterThan(100)
  expect(withLargeHeader).toBeLessThan(plain / 2)
  expect(withSmallBody).toBeLessThan(plain / 2)
  expect([withLargeBody, inChunks]).toEqual([8, 8])
})

test('requests with a body leave a quarter of the budget to requests without one', () => {
  const budget = createReadAheadBudget(1024 * kibibyte)
  for (const length of ['900000', '1']) while (budget.reserve(requestWith('Content-Length', length)));
  let count = 0
  while (budget.reserve(requestWith('Content-Length', '0'))) count += 1
  expect(count).toBeGreaterThan(256 / 8)
})

test('a request that ends releases its reservation', () => {
  const budget = createReadAheadBudget(160 * kibibyte)
  const large = ['Content-Length', '900000'] as const
  const first = requestWith(...large)
  expect([budget.reserve(first), budget.reserve(first)]).toEqual([true, true])
  expect(budget.reserve(requestWith(...large))).toBe(false)
  budget.release(first)
  budget.release(first)
  expect(budget.reserve(requestWith(...large))).toBe(true)
  expect(budget.reserve(requestWith(...large))).toBe(false)
})
