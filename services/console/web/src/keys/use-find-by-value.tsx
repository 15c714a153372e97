import { type ReactNode, useEffect, useRef, useState } from 'react'
import { keyValuePattern } from '@postern/contracts'
import { findKey } from '../api/keys.ts'
import { ApiProblem } from '../api/request.ts'
import { navigate } from '../router.tsx'
import { Failure, Notice } from '../ui/notice.tsx'

type Search =
  | { readonly state: 'idle' | 'searching' | 'unknown' }
  | { readonly state: 'failed'; readonly error: unknown }

/**
 * Opens the page of a key whose whole value was pasted into the search. `find` returns false for other texts. The value
 * is kept nowhere.
 */
export function useFindByValue(): { readonly find: (text: string) => boolean; readonly notice: ReactNode } {
  const [search, setSearch] = useState<Search>({ state: 'idle' })
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  const find = (text: string): boolean => {
    running.current?.abort()
    const value = keyValuePattern.exec(text)?.[0]
    if (value === undefined) {
      setSearch({ state: 'idle' })
      return false
    }
    const abort = new AbortController()
    running.current = abort
    setSearch({ state: 'searching' })
    findKey(value, abort.signal).then(
      ({ id }) => {
        if (!abort.signal.aborted) navigate(`/settings/api-keys/${id}`)
      },
      (error: unknown) => {
        if (abort.signal.aborted) return
        const isUnknown = error instanceof ApiProblem && error.problem.code === 'not_found'
        setSearch(isUnknown ? { state: 'unknown' } : { state: 'failed', error })
      },
    )
    return true
  }
  return { find, notice: noticeOf(search) }
}

function noticeOf(search: Search): ReactNode {
  switch (search.state) {
    case 'idle':
      return undefined
    case 'searching':
      return (
        <Notice tone="info" isNews>
          Looking for the key with this value…
        </Notice>
      )
    case 'unknown':
      return (
        <Notice tone="warning" title="No key of your organization has this value" isNews>
          It may belong to another organization or installation. Report it to its owner.
        </Notice>
      )
    case 'failed':
      return <Failure error={search.error} title="The key could not be searched for" />
    default:
      return search satisfies never
  }
}
