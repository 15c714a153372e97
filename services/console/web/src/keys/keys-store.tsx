import {
  type ReactNode,
  type RefObject,
  createContext,
  use,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { type ApiKey, listKeys } from '../api/keys.ts'

export interface KeysState {
  readonly keys: readonly ApiKey[] | undefined
  readonly isLoading: boolean
  readonly error: unknown
}

interface KeysStore extends KeysState {
  readonly reload: () => void
  readonly put: (key: ApiKey) => void
  readonly listQuery: RefObject<string>
}

const KeysContext = createContext<KeysStore | undefined>(undefined)

export function useKeys(): KeysStore {
  const store = use(KeysContext)
  if (store === undefined) throw new Error('there are no keys here')
  return store
}

export function KeysProvider({ children }: { readonly children: ReactNode }) {
  const [state, setState] = useState<KeysState>({ keys: undefined, isLoading: false, error: undefined })
  const running = useRef<AbortController>(undefined)
  const isWhole = useRef(false)
  const listQuery = useRef('')
  // Responses may be newer than the list.
  const returned = useRef(new Map<string, ApiKey>())

  const reload = useCallback(() => {
    running.current?.abort()
    const abort = new AbortController()
    running.current = abort
    returned.current = new Map()
    setState((old) => ({ ...old, isLoading: true, error: undefined }))
    listKeys(abort.signal, (keys) => {
      if (!abort.signal.aborted)
        setState((old) => (isWhole.current ? old : { ...old, keys: withReturnedKeys(keys, returned.current) }))
    }).then(
      (keys) => {
        if (abort.signal.aborted) return
        isWhole.current = true
        setState({ keys: withReturnedKeys(keys, returned.current), isLoading: false, error: undefined })
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setState((old) => ({ ...old, isLoading: false, error }))
      },
    )
  }, [])

  const put = useCallback((key: ApiKey) => {
    returned.current.set(key.id, key)
    setState((old) => (old.keys === undefined ? old : { ...old, keys: withReturnedKeys(old.keys, returned.current) }))
  }, [])

  useEffect(() => () => running.current?.abort(), [])
  const value = useMemo(() => ({ ...state, reload, put, listQuery }), [state, reload, put])
  return <KeysContext value={value}>{children}</KeysContext>
}

export function withReturnedKeys(keys: readonly ApiKey[], returned: ReadonlyMap<string, ApiKey>): readonly ApiKey[] {
  const listed = new Set(keys.map(({ id }) => id))
  const added = [...returned.values()].filter(({ id }) => !listed.has(id)).toReversed()
  return [...added, ...keys.map((key) => returned.get(key.id) ?? key)]
}
