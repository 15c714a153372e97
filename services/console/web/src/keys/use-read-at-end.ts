import { useEffect, useRef } from 'react'
import type { ApiKey } from '../api/keys.ts'

/** In case this clock is ahead of the server's. */
const laterMs = 5000

/** Reads again once per expiry, so that a wrong clock causes no loop. */
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
