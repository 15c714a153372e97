import { useEffect, useRef } from 'react'
import type { ApiKey } from '../api/keys.ts'

/** Asked a little later, so that a clock that is ahead of the server's by a moment is not told that the key is active still. */
const laterMs = 5000

/**
 * Reads again when a key that is shown as active has come to its end: the server says what it is then. Once for each such moment, whatever the answer
 * is: who has a clock that is wrong does not ask without end.
 */
export function useReadAtEnd(keys: readonly ApiKey[] | undefined, now: number, read: () => void): void {
  const asked = useRef(0)
  useEffect(() => {
    const until = now - laterMs
    const hasEnded = keys?.some(({ state, expires_at: at }) => {
      const end = Date.parse(at)
      return state === 'active' && end <= until && end > asked.current
    })
    if (!hasEnded) return
    asked.current = until
    read()
  }, [keys, now, read])
}
