import type { Config } from '../config.ts'

/** Names and attributes of the console's cookies. */
export interface Cookies {
  readonly session: string
  /** The cookie of one sign-in that is under way; several may be, in several tabs. */
  signIn(id: string): string
  /** A `Set-Cookie` value. Without an age the cookie ends with the browser. */
  set(name: string, value: string, maxAgeSeconds?: number): string
  clear(name: string): string
}

/**
 * Over https every cookie has the prefix `__Host-`: the browser then takes it from this host alone, over TLS alone, so
 * that no neighbour (a subdomain, somebody on the way) can plant one. On the loopback address over http it cannot have it.
 * Below a path it is `__Secure-`, because the browser sends `__Host-` cookies to every application of the host.
 */
export function createCookies({ isSecure, basePath }: Pick<Config, 'isSecure' | 'basePath'>): Cookies {
  const prefix = isSecure ? (basePath === '' ? '__Host-' : '__Secure-') : ''
  // Lax, not Strict: the answer of the provider is a navigation from another site, and so is a link in an e-mail.
  const attributes = `; Path=${basePath === '' ? '/' : basePath}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
  return {
    session: `${prefix}postern-session`,
    signIn: (id) => `${prefix}postern-sign-in-${id}`,
    set: (name, value, maxAgeSeconds) =>
      `${name}=${value}${attributes}${maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`}`,
    clear: (name) => `${name}=${attributes}; Max-Age=0`,
  }
}

/**
 * The cookies of a request (RFC 6265 §5.4). One that occurs twice is left out: one of the two was planted, and nobody can
 * tell which.
 */
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
