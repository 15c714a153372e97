import { passedRequestHeaders } from '@postern/contracts'

export type HeaderUse =
  | { readonly kind: 'pass'; readonly name: string }
  /** Forwarded and signed; must not be repeated. */
  | { readonly kind: 'signed'; readonly name: SignedHeader }
  /** Not forwarded; must not be repeated. */
  | { readonly kind: 'read'; readonly name: ReadHeader }
  | { readonly kind: 'strip'; readonly name: string }

const signed = ['content-type', 'content-length', 'content-digest', 'idempotency-key', 'if-match'] as const
const read = [
  'authorization',
  'host',
  'connection',
  'transfer-encoding',
  'x-http-method-override',
  'x-request-id',
  'x-forwarded-for',
] as const
export type SignedHeader = (typeof signed)[number]
export type ReadHeader = (typeof read)[number]

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
  return signed.some((each) => each === name)
}

function isRead(name: string): name is ReadHeader {
  return read.some((each) => each === name)
}
