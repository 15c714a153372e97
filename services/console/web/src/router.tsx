import { type AnchorHTMLAttributes, type MouseEvent, type ReactNode, useSyncExternalStore } from 'react'
import { consolePath, publicPath } from './base-path.ts'

const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** The page that must be confirmed before leaving it. */
let guarded: { readonly path: string; readonly query: string; readonly onLeave: () => void } | undefined

addEventListener('popstate', () => {
  if (guarded !== undefined && location.pathname !== guarded.path) {
    history.pushState(undefined, '', `${guarded.path}${guarded.query}`)
    guarded.onLeave()
    return
  }
  for (const listener of listeners) listener()
})

const warn = (event: BeforeUnloadEvent): void => event.preventDefault()

/** Keeps the page open and calls `onLeave` instead of leaving it. Returns a function that ends this. */
export function confirmLeaving(onLeave: () => void): () => void {
  const page = { path: location.pathname, query: location.search, onLeave }
  guarded = page
  addEventListener('beforeunload', warn)
  return () => {
    removeEventListener('beforeunload', warn)
    if (guarded === page) guarded = undefined
  }
}

export function mustConfirmLeaving(): boolean {
  return guarded !== undefined
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, openPath)
}

function openPath(): string {
  return consolePath(location.pathname)
}

export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  if (path === openPath()) return
  if (guarded !== undefined) {
    guarded.onLeave()
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
