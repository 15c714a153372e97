import { useCallback, useEffect, useRef, useState } from 'react'
import { NoAnswerError } from '../api/request.ts'

export interface Change {
  readonly isBusy: boolean
  readonly failure: unknown
  /** Never rejects: an error becomes `failure`. */
  readonly run: (action: (signal: AbortSignal) => Promise<void>) => Promise<void>
  /** The server may still carry out the change. */
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
      setFailure(
        abort.signal.aborted ? new NoAnswerError('You stopped waiting for the response.', { cause: error }) : error,
      )
    } finally {
      setBusy(false)
    }
  }, [])
  const stop = useCallback(() => running.current?.abort(), [])
  return { isBusy, failure, run, stop, setFailure }
}

const overdueMs = 8000

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
