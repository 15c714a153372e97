import { useEffect, useState } from 'react'

/** Returns the time in milliseconds, updated every 30 seconds for relative times. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 30_000)
    return () => clearInterval(timer)
  }, [])
  return now
}
