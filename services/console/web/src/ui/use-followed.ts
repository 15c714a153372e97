import { type SetStateAction, useCallback, useEffect, useRef } from 'react'
import { type Resource, useResource } from './use-resource.ts'

/** `isAutomatic`: the page reads without an action of the person. */
export interface Reading {
  readonly signal: AbortSignal
  readonly isAutomatic: boolean
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
  const asked = useCallback(async (signal: AbortSignal) => await load({ signal, isAutomatic: false }), [load])
  const { resource, reload, set: show } = useResource(asked)
  const refreshing = useRef<AbortController>(undefined)
  const pause = resource.state === 'ready' ? everyMs(resource.value) : undefined

  const stopRefreshing = useCallback(() => {
    refreshing.current?.abort()
    refreshing.current = undefined
  }, [])
  const set = useCallback(
    (next: SetStateAction<Resource<T>>) => {
      stopRefreshing()
      show(next)
    },
    [stopRefreshing, show],
  )

  useEffect(() => {
    if (pause === undefined) return
    const refresh = () => {
      if (refreshing.current !== undefined || document.visibilityState !== 'visible') return
      const abort = new AbortController()
      refreshing.current = abort
      load({ signal: abort.signal, isAutomatic: true }).then(
        (value) => {
          if (!abort.signal.aborted) set({ state: 'ready', value })
        },
        () => {
          if (!abort.signal.aborted) refreshing.current = undefined
        },
      )
    }
    const timer = setInterval(refresh, pause)
    document.addEventListener('visibilitychange', refresh)
    return () => {
      stopRefreshing()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', refresh)
    }
  }, [load, pause, set, stopRefreshing])
  return { resource, reload, set }
}
