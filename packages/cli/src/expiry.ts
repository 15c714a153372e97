import { usage } from './failure.ts'

/** The expiry of a new key, as the API takes it. */
export type ExpiryInput =
  | { readonly expires_in: '30d' | '90d' | '1y' }
  | { readonly expires_in: 'custom'; readonly expires_at: string }

// RFC 3339 §5.6, in upper case. A time without an offset would mean another moment on another machine.
const timestampPattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/

/** Reads `--expires`. Whether the time lies in the future and within the tenant's maximum, the server decides. */
export function parseExpiry(text: string): ExpiryInput {
  if (text === '30d' || text === '90d' || text === '1y') return { expires_in: text }
  if (timestampPattern.test(text) && !Number.isNaN(Date.parse(text))) return { expires_in: 'custom', expires_at: text }
  throw usage('--expires takes 30d, 90d, 1y or an RFC 3339 time with its offset, as 2027-06-30T00:00:00Z')
}
