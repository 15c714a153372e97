import type { Clocks, DatabaseClock } from './authenticate/clocks.ts'
import type { Exchange } from './exchange.ts'
import { windowMs } from './limit/rate-limit.ts'

/** Before a key's expiry, for `X-Key-Expires-At`. */
const expiryNoticeMs = 14 * 24 * 60 * 60 * 1000

export type CallerHeaders = (exchange: Pick<Exchange, 'principal' | 'limits'>) => string[]

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), and `X-Key-Expires-At`. HOT PATH. */
export function createCallerHeaders(clocks: Clocks, databaseClock: DatabaseClock): CallerHeaders {
  return ({ principal, limits }) => {
    if (limits === undefined || principal === undefined) return []
    const { policy, tokens, left, windowEnds, effectiveLimit } = limits.principal
    const now = clocks.monotonic()
    const [rest, seconds] =
      now < windowEnds ? [tokens + left, Math.ceil((windowEnds - now) / 1000)] : [effectiveLimit, windowMs / 1000]
    const headers = ['ratelimit-policy', policy, 'ratelimit', `"caller";r=${rest};t=${seconds}`]
    if (principal.kind === 'api_key' && principal.expiresAt - (databaseClock.latest() ?? 0) < expiryNoticeMs) {
      headers.push('x-key-expires-at', new Date(principal.expiresAt).toISOString())
    }
    return headers
  }
}
