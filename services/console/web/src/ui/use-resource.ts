import { type Dispatch, type SetStateAction, useCallback, useEffect, useState } from 'react'

export type Resource<T> =
  | { readonly state: 'loading' }
  | { readonly state: 'ready'; readonly value: T }
  | { readonly state: 'failed'; readonly error: unknown }

/** Pass a stable `load`. `reload` keeps the old value meanwhile. */
export function useResource<T>(load: (signal: AbortSignal) => Promise<T>): {
  resource: Resource<T>
  reload: () => void
  set: Dispatch<SetStateAction<Resource<T>>>
} {
  const [resource, setResource] = useState<Resource<T>>({ state: 'loading' })
  const [round, setRound] = useState(0)
  useEffect(() => {
    const abort = new AbortController()
    load(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setResource({ state: 'ready', value })
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setResource({ state: 'failed', error })
      },
    )
    return () => abort.abort()
  }, [load, round])
  const reload = useCallback(() => {
    setResource((old) => (old.state === 'failed' ? { state: 'loading' } : old))
    setRound((old) => old + 1)
  }, [])
  return { resource, reload, set: setResource }
}
