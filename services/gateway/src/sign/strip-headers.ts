import { strippedHeaderPrefixes, strippedHeaders } from '@postern/contracts'

/** What the gateway does with a client's header. */
export type HeaderUse =
  /** Passed on under this lower-case name. */
  | { readonly pass: string }
  /** Passed on, covered by the signature; must not occur twice. */
  | { readonly signed: SignedHeader }
  /** Read by the gateway itself and not passed on; must not occur twice. */
  | { readonly read: ReadHeader }
  | 'strip'

export type SignedHeader = 'content-type' | 'content-length' | 'content-digest' | 'idempotency-key' | 'if-match'
export type ReadHeader =
  | 'authorization'
  | 'host'
  | 'connection'
  | 'transfer-encoding'
  | 'x-request-id'
  | 'x-forwarded-for'

const signed: readonly string[] = ['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match']
const read: readonly string[] = [
  'authorization',
  'host',
  'connection',
  'transfer-encoding',
  'x-request-id',
  'x-forwarded-for',
]
const stripped: ReadonlySet<string> = new Set(strippedHeaders)

/** Names as clients really send them; a hostile client must not fill the memory with new ones. */
const maxKnown = 512
const known = new Map<string, HeaderUse>()

/** Tells what to do with a header, by its name in any spelling. HOT PATH: each spelling is thought about once. */
export function useOfHeader(name: string): HeaderUse {
  const before = known.get(name)
  if (before !== undefined) return before
  const use = classify(name)
  if (known.size < maxKnown && name.length < 64) known.set(name, use)
  return use
}

function classify(name: string): HeaderUse {
  const lower = name.toLowerCase()
  if (isSigned(lower)) return { signed: lower }
  if (isRead(lower)) return { read: lower }
  // Servers that fold `_` to `-` (CGI and its heirs) would read the two as one header.
  const folded = lower.replaceAll('_', '-')
  if (stripped.has(folded) || strippedHeaderPrefixes.some((prefix) => folded.startsWith(prefix))) return 'strip'
  if (folded !== lower && (isSigned(folded) || isRead(folded))) return 'strip'
  return { pass: lower }
}

function isSigned(name: string): name is SignedHeader {
  return signed.includes(name)
}

function isRead(name: string): name is ReadHeader {
  return read.includes(name)
}
