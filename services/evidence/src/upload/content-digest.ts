/** What a Content-Digest header asks for. */
export type ContentDigest =
  | { readonly kind: 'none' }
  /** Lower-case hex of the SHA-256 that the sender computed. */
  | { readonly kind: 'sha-256'; readonly hex: string }
  | { readonly kind: 'malformed'; readonly reason: string }

const member = /^(?<name>[a-z*][a-z0-9_.*-]*)=:(?<value>[A-Za-z0-9+/]*={0,2}):$/
const maxLength = 1024

/**
 * Reads a Content-Digest header (RFC 9530 §2), a dictionary of byte sequences (RFC 9651 §3.2). Only sha-256 is checked:
 * a header without it is malformed to us, rather than ignored, since its sender believes that something was checked.
 */
export function parseContentDigest(header: string | undefined): ContentDigest {
  if (header === undefined) return { kind: 'none' }
  if (header.length > maxLength) return { kind: 'malformed', reason: 'is too long' }
  const digests = new Map<string, string>()
  for (const part of header.split(',')) {
    const groups = member.exec(part.trim())?.groups
    const { name, value } = groups ?? {}
    if (name === undefined || value === undefined) {
      return { kind: 'malformed', reason: 'must look like sha-256=:<base64>: (RFC 9530)' }
    }
    if (digests.has(name)) return { kind: 'malformed', reason: 'names an algorithm twice' }
    digests.set(name, value)
  }
  const sha256 = digests.get('sha-256')
  if (sha256 === undefined) return { kind: 'malformed', reason: 'must hold a sha-256 digest' }
  const bytes = Buffer.from(sha256, 'base64')
  // Comparing the text again refuses what the decoder would only have skipped.
  if (bytes.length !== 32 || bytes.toString('base64') !== sha256) {
    return { kind: 'malformed', reason: 'must hold the 32 bytes of a SHA-256 in base64' }
  }
  return { kind: 'sha-256', hex: bytes.toString('hex') }
}
