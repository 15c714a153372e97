import { useEffect, useState } from 'react'
import { type Run, eventsOf, getRun } from '../api/sync.ts'
import type { Resource } from '../ui/use-resource.ts'
import { isRunning } from './words.ts'

const fallbackEveryMs = 3000
const waitingEveryMs = 5000

export function useRun(id: string): {
  readonly resource: Resource<Run>
  readonly put: (run: Run) => void
  readonly reload: () => void
} {
  const [resource, setResource] = useState<Resource<Run>>({ state: 'loading' })
  const [round, setRound] = useState(0)
  const isFollowed = resource.state === 'ready' && isRunning(resource.value)
  const isWaiting = resource.state === 'ready' && resource.value.status === 'needs_approval'

  useEffect(() => {
    const abort = new AbortController()
    getRun(id, { signal: abort.signal }).then(
      (value) => setResource({ state: 'ready', value }),
      (error: unknown) => {
        if (!abort.signal.aborted) setResource({ state: 'failed', error })
      },
    )
    return () => abort.abort()
  }, [id, round])

  useEffect(() => {
    if (!isFollowed) return
    // The browser reconnects when a stream ends, after 50 seconds.
    const events = new EventSource(eventsOf(id))
    let timer: ReturnType<typeof setInterval> | undefined
    const read = () => {
      getRun(id, { isAutomatic: true }).then(
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
      // A normal read also detects that nobody is signed in.
      if (events.readyState === EventSource.CLOSED) timer ??= setInterval(read, fallbackEveryMs)
    })
    return () => {
      events.close()
      clearInterval(timer)
    }
  }, [id, isFollowed])

  useEffect(() => {
    if (!isWaiting) return
    // An earlier read must not overwrite a decision.
    const abort = new AbortController()
    const refresh = () => {
      if (document.visibilityState !== 'visible') return
      getRun(id, { signal: abort.signal, isAutomatic: true }).then(
        (value) => {
          if (!abort.signal.aborted) setResource({ state: 'ready', value })
        },
        () => undefined,
      )
    }
    const timer = setInterval(refresh, waitingEveryMs)
    document.addEventListener('visibilitychange', refresh)
    return () => {
      abort.abort()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', refresh)
    }
  }, [id, isWaiting])

  return {
    resource,
    put: (value) => setResource({ state: 'ready', value }),
    reload: () => {
      setResource((old) => (old.state === 'failed' ? { state: 'loading' } : old))
      setRound((old) => old + 1)
    },
  }
}
