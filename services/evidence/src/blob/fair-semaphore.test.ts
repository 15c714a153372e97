import { expect, test } from 'vitest'
import { createFairSemaphore } from './fair-semaphore.ts'

const late = () => new Error('nothing became free')
const patient = { waitMs: 60_000, timeoutError: late }

/** Whether the work has ended, once everything that can run has run. */
async function isDone(work: Promise<unknown>): Promise<boolean> {
  let done = false
  work.then(
    () => (done = true),
    () => (done = true),
  )
  await new Promise((resolve) => void setImmediate(resolve))
  return done
}

test('a tenant gets half of the permits, and another tenant the rest without waiting', async () => {
  const semaphore = createFairSemaphore(4, patient)
  const release = await semaphore.acquire('a')
  await semaphore.acquire('a')
  const third = semaphore.acquire('a')
  expect(await isDone(third)).toBe(false)
  await semaphore.acquire('b')
  await semaphore.acquire('b')
  release()
  await third
})

test('the waiting tenant that holds the fewest permits is next', async () => {
  const semaphore = createFairSemaphore(2, patient)
  const [ofA, ofB] = [await semaphore.acquire('a'), await semaphore.acquire('b')]
  const [second, first] = [semaphore.acquire('a'), semaphore.acquire('c')]
  ofB()
  await first
  expect(await isDone(second)).toBe(false)
  ofA()
  await second
})

test('a permit that is released twice is free once', async () => {
  const semaphore = createFairSemaphore(1, patient)
  const release = await semaphore.acquire('a')
  release()
  release()
  await semaphore.acquire('a')
  expect(await isDone(semaphore.acquire('b'))).toBe(false)
})

test('a caller that has waited too long is rejected, and its place passes to the next one', async () => {
  const semaphore = createFairSemaphore(1, { waitMs: 20, timeoutError: late })
  const release = await semaphore.acquire('a')
  await expect(semaphore.acquire('b')).rejects.toThrow('nothing became free')
  release()
  await semaphore.acquire('c')
})

test('a caller that is aborted waits no longer and takes no permit', async () => {
  const semaphore = createFairSemaphore(1, patient)
  const release = await semaphore.acquire('a')
  const gone = new AbortController()
  const waiting = semaphore.acquire('b', gone.signal)
  gone.abort(new Error('the sender is gone'))
  await expect(waiting).rejects.toThrow('the sender is gone')
  release()
  await semaphore.acquire('c')
  await expect(semaphore.acquire('b', gone.signal)).rejects.toThrow('the sender is gone')
})
