import { useEffect, useState } from 'react'
import { type Run, eventsOf, getRun } from '../api/sync.ts'
import type { Resource } from '../ui/use-resource.ts'
import { isRunning } from './words.ts'

/** When the stream cannot be had, the run is read this often, in milliseconds. */
const readEveryMs = 3000

/**
 * A run as it is now: read once, then followed as long as something happens by itself. `put` takes over what an answer has
 * told; `again` reads it anew.
 */
export function useRun(id: string): {
  readonly resource: Resource<Run>
  readonly put: (run: Run) => void
  readonly again: () => void
} {
  const [resource, setResource] = useState<Resource<Run>>({ state: 'loading' })
  const [round, setRound] = useState(0)
  const isFollowed = resource.state === 'ready' && isRunning(resource.value)

  useEffect(() => {
    const abort = new AbortController()
    getRun(id, abort.signal).then(
      (value) => setResource({ state: 'ready', value }),
      (error: unknown) => {
        if (!abort.signal.aborted) setResource({ state: 'failed', error })
      },
    )
    return () => abort.abort()
  }, [id, round])

  useEffect(() => {
    if (!isFollowed) return
    // The browser itself connects again when a stream ends, which it does after 50 seconds.
    const events = new EventSource(eventsOf(id))
    let timer: ReturnType<typeof setInterval> | undefined
    const read = () => {
      getRun(id).then(
        (value) => setResource({ state: 'ready', value }),
        () => undefined,
      )
    }
    events.addEventListener('run', (event) => {
      const value: Run = JSON.parse(String(event.data))
      setResource({ state: 'ready', value })
    })
    events.addEventListener('end', () => events.close())
    events.addEventListener('error', () => {
      // Refused for good: asked the usual way, which also notices that nobody is signed in any more.
      if (events.readyState === EventSource.CLOSED) timer ??= setInterval(read, readEveryMs)
    })
    return () => {
      events.close()
      clearInterval(timer)
    }
  }, [id, isFollowed])

  return {
    resource,
    put: (value) => setResource({ state: 'ready', value }),
    again: () => {
      setResource((old) => (old.state === 'failed' ? { state: 'loading' } : old))
      setRound((old) => old + 1)
    },
  }
}
