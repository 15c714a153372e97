import { useEffect, useState } from 'react'
import { type Run, listRuns } from '../api/sync.ts'
import { isUndoneBy, keyOf } from './run-rules.ts'

/** False until known. */
export function useIsUndone(run: Run | undefined): boolean {
  const [undone, setUndone] = useState<string>()
  const id = run?.id
  const key = run === undefined ? undefined : keyOf(run)
  useEffect(() => {
    if (id === undefined || key === undefined) return
    const abort = new AbortController()
    listRuns({ signal: abort.signal }, key).then(
      ({ items }) => {
        if (!abort.signal.aborted && items.some((each) => isUndoneBy(id, each))) setUndone(id)
      },
      () => undefined,
    )
    return () => abort.abort()
  }, [id, key])
  return id !== undefined && undone === id
}
