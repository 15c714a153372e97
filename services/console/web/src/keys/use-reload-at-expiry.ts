import { useEffect, useRef } from 'react'
import type { ApiKey } from '../api/keys.ts'

/** Allows for a browser clock that is ahead of the server's. */
const delayMs = 5000

/** Reads the keys again once after each expiry. A wrong clock causes no loop. */
export function useReloadAtExpiry(keys: readonly ApiKey[] | undefined, now: number, read: () => void): void {
  const lastRead = useRef(0)
  useEffect(() => {
    const until = now - delayMs
    const hasEnded = keys?.some(({ state, expires_at: at }) => {
      const end = Date.parse(at)
      return state === 'active' && end <= until && end > lastRead.current
    })
    if (!hasEnded) return
    lastRead.current = until
    read()
  }, [keys, now, read])
}
