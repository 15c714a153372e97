import { useEffect, useState } from 'react'
import { ApiProblem } from '../api/request.ts'
import { type Run, getConnector } from '../api/sync.ts'
import { keyOf } from './run-rules.ts'

/** Returns false until known. */
export function useIsRetired(run: Run | undefined): boolean {
  const [gone, setGone] = useState<string>()
  const saysSo = run !== undefined && keyOf(run) === undefined
  const id = saysSo ? null : (run?.connector_id ?? null)
  useEffect(() => {
    if (id === null) return
    const abort = new AbortController()
    getConnector(id, { signal: abort.signal }).catch((error: unknown) => {
      // Other errors do not mean that the connector is missing.
      if (!abort.signal.aborted && error instanceof ApiProblem && error.problem.status === 404) setGone(id)
    })
    return () => abort.abort()
  }, [id])
  return saysSo || (id !== null && gone === id)
}
