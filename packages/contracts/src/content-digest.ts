/** RFC 9530 §5, with the bytes of the digests. */
const bytesOf = { 'sha-256': 32, 'sha-512': 64 } as const

type DigestAlgorithm = keyof typeof bytesOf
const allAlgorithms = ['sha-256', 'sha-512'] as const satisfies readonly DigestAlgorithm[]

export type ContentDigest =
  | { readonly kind: 'none' }
  | { readonly kind: 'given'; readonly digests: ReadonlyMap<DigestAlgorithm, string> }
  | { readonly kind: 'malformed'; readonly reason: string }

const member = /^(?<name>[a-z*][a-z0-9_.*-]*)=:(?<value>[A-Za-z0-9+/]*={0,2}):$/
const maxLength = 1024

/** RFC 9530 §2, RFC 9651 §3.2. A header without a supported algorithm is malformed. */
export function parseContentDigest(
  header: string | undefined,
  algorithms: readonly DigestAlgorithm[] = allAlgorithms,
): ContentDigest {
  if (header === undefined) return { kind: 'none' }
  if (header.length > maxLength) return { kind: 'malformed', reason: 'is too long' }
  const values = new Map<string, string>()
  for (const part of header.split(',')) {
    const groups = member.exec(part.trim())?.groups
    const { name, value } = groups ?? {}
    if (name === undefined || value === undefined) {
      return { kind: 'malformed', reason: 'must look like sha-256=:<base64>: (RFC 9530)' }
    }
    if (values.has(name)) return { kind: 'malformed', reason: 'names an algorithm twice' }
    values.set(name, value)
  }
  const digests = new Map<DigestAlgorithm, string>()
  for (const algorithm of algorithms) {
    const value = values.get(algorithm)
    if (value === undefined) continue
    const bytes = Buffer.from(value, 'base64')
    // The decoder ignores invalid characters.
    if (bytes.length !== bytesOf[algorithm] || bytes.toString('base64') !== value) {
      const name = algorithm.toUpperCase()
      return { kind: 'malformed', reason: `must be the ${bytesOf[algorithm]} bytes of a ${name} in base64` }
    }
    digests.set(algorithm, bytes.toString('hex'))
  }
  if (digests.size === 0) return { kind: 'malformed', reason: `must contain a ${algorithms.join(' or ')} digest` }
  return { kind: 'given', digests }
}
