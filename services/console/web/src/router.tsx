import { type AnchorHTMLAttributes, type MouseEvent, type ReactNode, useSyncExternalStore } from 'react'
import { consolePath, publicPath } from './base-path.ts'

const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** The page that must be confirmed before leaving it. */
let stay: { readonly path: string; readonly query: string; readonly onLeave: () => void } | undefined

addEventListener('popstate', () => {
  if (stay !== undefined && location.pathname !== stay.path) {
    history.pushState(undefined, '', `${stay.path}${stay.query}`)
    stay.onLeave()
    return
  }
  for (const listener of listeners) listener()
})

const warn = (event: BeforeUnloadEvent): void => event.preventDefault()

/** Asks `onLeave` before the page is left. Returns a function that ends it. */
export function stayHere(onLeave: () => void): () => void {
  const held = { path: location.pathname, query: location.search, onLeave }
  stay = held
  addEventListener('beforeunload', warn)
  return () => {
    removeEventListener('beforeunload', warn)
    if (stay === held) stay = undefined
  }
}

export function isKeptHere(): boolean {
  return stay !== undefined
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, openPath)
}

function openPath(): string {
  return consolePath(location.pathname)
}

export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  if (path === openPath()) return
  if (stay !== undefined) {
    stay.onLeave()
    return
  }
  if (replace) history.replaceState(undefined, '', publicPath(path))
  else history.pushState(undefined, '', publicPath(path))
  for (const listener of listeners) listener()
  if (!replace) scrollTo({ top: 0 })
}

/** `query` is empty or begins with `?`. */
export function keepQuery(query: string): void {
  if (location.search !== query) history.replaceState(history.state, '', `${location.pathname}${query}`)
}

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  readonly to: string
  readonly children: ReactNode
}

export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const open = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event)
    const asUsual = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (event.defaultPrevented || !asUsual) return
    event.preventDefault()
    navigate(to)
  }
  return (
    <a href={publicPath(to)} onClick={open} {...rest}>
      {children}
    </a>
  )
}
