import { useCallback, useEffect, useRef, useState } from 'react'
import { NoAnswer } from '../api/request.ts'

/** A change that a person makes: whether it is under way, and what went wrong with it. */
export interface Change {
  readonly isBusy: boolean
  /** Undefined until the last attempt has failed. */
  readonly failure: unknown
  /** Carries out the change. Rejects never: an error becomes the `failure`. */
  readonly run: (action: (signal: AbortSignal) => Promise<void>) => Promise<void>
  /** Stops waiting for the answer. The server may carry out the change all the same. */
  readonly stop: () => void
  readonly setFailure: (failure: unknown) => void
}

export function useChange(): Change {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<unknown>()
  const running = useRef<AbortController>(undefined)

  const run = useCallback(async (action: (signal: AbortSignal) => Promise<void>) => {
    const abort = new AbortController()
    running.current = abort
    setBusy(true)
    setFailure(undefined)
    try {
      await action(abort.signal)
    } catch (error) {
      setFailure(abort.signal.aborted ? new NoAnswer('You stopped waiting for the answer.', { cause: error }) : error)
    } finally {
      setBusy(false)
    }
  }, [])
  const stop = useCallback(() => running.current?.abort(), [])
  return { isBusy, failure, run, stop, setFailure }
}

/** Answers usually take well below a second. */
const overdueMs = 8000

/** Whether something has been under way for longer than it should be. */
export function useIsOverdue(isBusy: boolean): boolean {
  const [isOverdue, setOverdue] = useState(false)
  useEffect(() => {
    if (!isBusy) return
    const timer = setTimeout(() => setOverdue(true), overdueMs)
    return () => {
      clearTimeout(timer)
      setOverdue(false)
    }
  }, [isBusy])
  return isOverdue
}
