import { passedRequestHeaders } from '@postern/contracts'

export type HeaderUse =
  | { readonly kind: 'pass'; readonly name: string }
  /** Forwarded and signed; must not be repeated. */
  | { readonly kind: 'signed'; readonly name: SignedHeader }
  /** Not forwarded; must not be repeated. */
  | { readonly kind: 'read'; readonly name: ReadHeader }
  | { readonly kind: 'strip'; readonly name: string }

export type SignedHeader = 'content-type' | 'content-length' | 'content-digest' | 'idempotency-key' | 'if-match'
export type ReadHeader =
  | 'authorization'
  | 'host'
  | 'connection'
  | 'transfer-encoding'
  | 'x-http-method-override'
  | 'x-request-id'
  | 'x-forwarded-for'

const signed: readonly string[] = ['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match']
const read: readonly string[] = [
  'authorization',
  'host',
  'connection',
  'transfer-encoding',
  'x-http-method-override',
  'x-request-id',
  'x-forwarded-for',
]

/** Clients must not fill the memory. */
const maxKnown = 512
const known = new Map<string, HeaderUse>()

/** The name can have any case. HOT PATH: cached by spelling. */
export function useOfHeader(name: string): HeaderUse {
  const before = known.get(name)
  if (before !== undefined) return before
  const use = classify(name)
  if (known.size < maxKnown && name.length < 64) known.set(name, use)
  return use
}

function classify(name: string): HeaderUse {
  const lower = name.toLowerCase()
  if (isSigned(lower)) return { kind: 'signed', name: lower }
  if (isRead(lower)) return { kind: 'read', name: lower }
  return { kind: passedRequestHeaders.has(lower) ? 'pass' : 'strip', name: lower }
}

function isSigned(name: string): name is SignedHeader {
  return signed.includes(name)
}

function isRead(name: string): name is ReadHeader {
  return read.includes(name)
}
