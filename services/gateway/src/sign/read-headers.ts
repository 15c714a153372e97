import { type ReadHeader, type SignedHeader, useOfHeader } from './strip-headers.ts'

/** A client's headers, sorted by what the gateway does with them. */
export interface ClientHeaders {
  /** Alternating names (lower case) and values: what is passed on, without what the gateway owns. */
  readonly passed: string[]
  readonly signed: Partial<Record<SignedHeader, string>>
  readonly read: Partial<Record<ReadHeader, string>>
  /** A header that must occur once and did not; undefined when all is well. */
  readonly duplicate: string | undefined
}

/**
 * Sorts the raw headers (alternating names and values, as Node gives them) in one pass. Headers that `Connection` names
 * are hop-by-hop and go no further (RFC 9110 §7.6.1). HOT PATH.
 */
export function readHeaders(rawHeaders: readonly string[]): ClientHeaders {
  const passed: string[] = []
  const signed: Partial<Record<SignedHeader, string>> = {}
  const read: Partial<Record<ReadHeader, string>> = {}
  let duplicate: string | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const use = useOfHeader(rawHeaders[at] ?? '')
    const value = rawHeaders[at + 1] ?? ''
    if (use === 'strip') continue
    if ('pass' in use) {
      passed.push(use.pass, value)
    } else if ('signed' in use) {
      if (signed[use.signed] !== undefined) duplicate = use.signed
      signed[use.signed] = value
    } else if (read[use.read] === undefined) {
      read[use.read] = value
    } else if (use.read === 'connection' || use.read === 'x-forwarded-for') {
      read[use.read] += `,${value}`
    } else {
      duplicate = use.read
    }
  }
  const { connection } = read
  if (connection !== undefined && connection !== 'keep-alive' && connection !== 'close') {
    return { passed: withoutNamed(passed, connection), signed: withoutNamedSigned(signed, connection), read, duplicate }
  }
  return { passed, signed, read, duplicate }
}

function namesIn(connection: string): ReadonlySet<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
}

function withoutNamed(passed: readonly string[], connection: string): string[] {
  const named = namesIn(connection)
  return passed.filter((_text, at) => !named.has(passed[at - (at % 2)] ?? ''))
}

function withoutNamedSigned(
  signed: Partial<Record<SignedHeader, string>>,
  connection: string,
): Partial<Record<SignedHeader, string>> {
  const named = namesIn(connection)
  const rest = { ...signed }
  for (const name of ['content-type', 'content-digest', 'idempotency-key', 'if-match'] as const) {
    if (named.has(name)) delete rest[name]
  }
  return rest
}
