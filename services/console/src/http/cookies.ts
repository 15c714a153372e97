import type { Config } from '../config.ts'

export interface Cookies {
  readonly session: string
  /** One for each sign-in in progress, for several tabs. */
  signIn(id: string): string
  readonly signOut: string
  /** For a person who has yet to choose a tenant. */
  readonly choice: string
  /** Without an age, the cookie ends with the browser. */
  set(name: string, value: string, maxAgeSeconds?: number): string
  clear(name: string): string
}

/**
 * Subdomains cannot set `__Host-` cookies. Below a path the prefix is `__Secure-`, because `__Host-` cookies go to every
 * path.
 */
export function createCookies({ isSecure, basePath }: Pick<Config, 'isSecure' | 'basePath'>): Cookies {
  const prefix = isSecure ? (basePath === '' ? '__Host-' : '__Secure-') : ''
  // Lax, because the provider's redirect is a navigation from another site.
  const attributes = `; Path=${basePath === '' ? '/' : basePath}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
  return {
    session: `${prefix}postern-session`,
    signIn: (id) => `${prefix}postern-sign-in-${id}`,
    signOut: `${prefix}postern-sign-out`,
    choice: `${prefix}postern-choice`,
    set: (name, value, maxAgeSeconds) =>
      `${name}=${value}${attributes}${maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`}`,
    clear: (name) => `${name}=${attributes}; Max-Age=0`,
  }
}

/** Parses cookies (RFC 6265 §5.4). Omits repeated names, because one may be an attacker's. */
export function parseCookies(header: string | undefined): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  const twice = new Set<string>()
  for (const part of (header ?? '').split(';')) {
    const at = part.indexOf('=')
    if (at === -1) continue
    const name = part.slice(0, at).trim()
    if (found.has(name)) twice.add(name)
    found.set(name, part.slice(at + 1).trim())
  }
  for (const name of twice) found.delete(name)
  return found
}
