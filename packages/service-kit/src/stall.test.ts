import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchStall } from './stall.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a silent sender is reported once, and not while it is held', () => {
  let isHeld = false
  const onStall = vi.fn<() => void>()
  const stall = watchStall(100, { isHeld: () => isHeld, onStall })
  vi.advanceTimersByTime(99)
  stall.refresh()
  vi.advanceTimersByTime(99)
  expect(onStall).not.toHaveBeenCalled()
  isHeld = true
  vi.advanceTimersByTime(1000)
  expect(onStall).not.toHaveBeenCalled()
  isHeld = false
  vi.advanceTimersByTime(100)
  vi.advanceTimersByTime(1000)
  expect(onStall).toHaveBeenCalledTimes(1)
})

test('a stopped watch never reports', () => {
  const onStall = vi.fn<() => void>()
  const stall = watchStall(100, { isHeld: () => false, onStall })
  stall.stop()
  stall.stop()
  vi.advanceTimersByTime(1000)
  expect(onStall).not.toHaveBeenCalled()
})

test('a sender is not reported if its bytes are read just after its time ended', () => {
  const onStall = vi.fn<() => void>()
  const stall = watchStall(100, { isHeld: () => false, onStall })
  // Its time is over, and nothing has been read since: only then comes what follows the timers.
  vi.advanceTimersToNextTimer()
  stall.refresh()
  vi.advanceTimersByTime(99)
  expect(onStall).not.toHaveBeenCalled()
  vi.advanceTimersByTime(10)
  expect(onStall).toHaveBeenCalledTimes(1)
})
