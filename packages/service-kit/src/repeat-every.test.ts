import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { repeatEvery } from './repeat-every.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('work that takes long is not begun twice, and is waited for at the end', async () => {
  const done: (() => void)[] = []
  const repeated = repeatEvery(1000, async () => await new Promise<void>((resolve) => done.push(resolve)))
  await vi.advanceTimersByTimeAsync(3000)
  expect(done).toHaveLength(1)
  done[0]?.()
  await vi.advanceTimersByTimeAsync(1000)
  expect(done).toHaveLength(2)
  const stopped = vi.fn<() => void>()
  const stopping = repeated.stop().then(stopped)
  await vi.advanceTimersByTimeAsync(5000)
  expect([done.length, stopped.mock.calls.length]).toEqual([2, 0])
  done[1]?.()
  await stopping
  expect(stopped).toHaveBeenCalledOnce()
})
