import { type SetStateAction, useCallback, useEffect, useRef } from 'react'
import { type Resource, useResource } from './use-resource.ts'

/** `isByItself`: without an action of the person. */
export interface Reading {
  readonly signal: AbortSignal
  readonly isByItself: boolean
}

/** Reads again every `everyMs` while the page is visible. Failed reads keep the old value. Pass stable functions. */
export function useFollowed<T>(
  load: (reading: Reading) => Promise<T>,
  everyMs: (value: T) => number | undefined,
): {
  readonly resource: Resource<T>
  readonly reload: () => void
  readonly set: (next: SetStateAction<Resource<T>>) => void
} {
  const asked = useCallback(async (signal: AbortSignal) => await load({ signal, isByItself: false }), [load])
  const { resource, reload, set: show } = useResource(asked)
  const looking = useRef<AbortController>(undefined)
  const pause = resource.state === 'ready' ? everyMs(resource.value) : undefined

  const stopLooking = useCallback(() => {
    looking.current?.abort()
    looking.current = undefined
  }, [])
  const set = useCallback(
    (next: SetStateAction<Resource<T>>) => {
      stopLooking()
      show(next)
    },
    [stopLooking, show],
  )

  useEffect(() => {
    if (pause === undefined) return
    const refresh = () => {
      if (looking.current !== undefined || document.visibilityState !== 'visible') return
      const abort = new AbortController()
      looking.current = abort
      load({ signal: abort.signal, isByItself: true }).then(
        (value) => {
          if (!abort.signal.aborted) set({ state: 'ready', value })
        },
        () => {
          if (!abort.signal.aborted) looking.current = undefined
        },
      )
    }
    const timer = setInterval(refresh, pause)
    document.addEventListener('visibilitychange', refresh)
    return () => {
      stopLooking()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', refresh)
    }
  }, [load, pause, set, stopLooking])
  return { resource, reload, set }
}
