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

/** The keys of the tenant, as far as they are known. */
export interface KeysState {
  readonly keys: readonly ApiKey[] | undefined
  /** More keys are on their way. */
  readonly isLoading: boolean
  readonly error: unknown
}

interface KeysStore extends KeysState {
  readonly reload: () => void
  /** Takes over what an answer has told of a key. */
  readonly put: (key: ApiKey) => void
  /** The query of the list as it was shown last, with its search and filters. */
  readonly listQuery: RefObject<string>
}

const KeysContext = createContext<KeysStore | undefined>(undefined)

/** The list of keys; read when a page that shows it opens, and kept while other pages are open. */
export function useKeys(): KeysStore {
  const store = use(KeysContext)
  if (store === undefined) throw new Error('there are no keys here')
  return store
}

/** Keeps the list of keys, so that a page that was left and opened again does not begin empty. */
export function KeysProvider({ children }: { readonly children: ReactNode }) {
  const [state, setState] = useState<KeysState>({ keys: undefined, isLoading: false, error: undefined })
  const running = useRef<AbortController>(undefined)
  const isWhole = useRef(false)
  const listQuery = useRef('')
  // What answers have told since the list was asked for, which may have been written down before.
  const told = useRef(new Map<string, ApiKey>())

  const reload = useCallback(() => {
    running.current?.abort()
    const abort = new AbortController()
    running.current = abort
    told.current = new Map()
    setState((old) => ({ ...old, isLoading: true, error: undefined }))
    listKeys(abort.signal, (keys) => {
      // While a known list is read anew it stays whole: a table that shrinks and grows again would jump.
      if (!abort.signal.aborted)
        setState((old) => (isWhole.current ? old : { ...old, keys: withTold(keys, told.current) }))
    }).then(
      (keys) => {
        if (abort.signal.aborted) return
        isWhole.current = true
        setState({ keys: withTold(keys, told.current), isLoading: false, error: undefined })
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setState((old) => ({ ...old, isLoading: false, error }))
      },
    )
  }, [])

  const put = useCallback((key: ApiKey) => {
    told.current.set(key.id, key)
    setState((old) => (old.keys === undefined ? old : { ...old, keys: withTold(old.keys, told.current) }))
  }, [])

  useEffect(() => () => running.current?.abort(), [])
  const value = useMemo(() => ({ ...state, reload, put, listQuery }), [state, reload, put])
  return <KeysContext value={value}>{children}</KeysContext>
}

/** The list with what is known better: newer keys first. */
export function withTold(keys: readonly ApiKey[], told: ReadonlyMap<string, ApiKey>): readonly ApiKey[] {
  const listed = new Set(keys.map(({ id }) => id))
  const added = [...told.values()].filter(({ id }) => !listed.has(id)).toReversed()
  return [...added, ...keys.map((key) => told.get(key.id) ?? key)]
}
