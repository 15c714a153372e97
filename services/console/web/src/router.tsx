import { type AnchorHTMLAttributes, type MouseEvent, type ReactNode, useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('popstate', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('popstate', listener)
  }
}

/** The path that is open. */
export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname)
}

/** Opens a page of the console. */
export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  if (path === location.pathname) return
  if (replace) history.replaceState(undefined, '', path)
  else history.pushState(undefined, '', path)
  for (const listener of listeners) listener()
  if (!replace) scrollTo({ top: 0 })
}

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  readonly to: string
  readonly children: ReactNode
}

/** A link to a page of the console: opens without loading anew, and in a new tab where the browser is asked for one. */
export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const open = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event)
    const asUsual = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (event.defaultPrevented || !asUsual) return
    event.preventDefault()
    navigate(to)
  }
  return (
    <a href={to} onClick={open} {...rest}>
      {children}
    </a>
  )
}
