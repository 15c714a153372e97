import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { z } from 'zod'

/** The root of an empty log. */
export const emptyRoot: string = '0'.repeat(64)

/** The members that the chain needs. All other members are hashed too. */
const chainedSchema = z.looseObject({
  position: z.int().min(1),
  seq: z.int().min(1),
  finding_id: z.string(),
  prev_hash: z.string().nullable(),
  hash: z.string(),
})
export type ChainedEntry = z.infer<typeof chainedSchema>

/** Parses one entry of an export. Returns undefined if it is invalid. */
export function parseEntry(value: unknown): ChainedEntry | undefined {
  return chainedSchema.safeParse(value).data
}

/**
 * Returns the text that is stored and hashed: the canonical JSON (RFC 8785) of an entry without its hash and position.
 * The root of the tenant's log covers the position.
 */
export function sealEntry(entry: Readonly<Record<string, unknown>>): string {
  const { position: _position, hash: _hash, ...content } = entry
  const text = canonicalize(content)
  if (text === undefined) throw new TypeError('an entry of the log must be JSON')
  return text
}

/** Returns the SHA-256 of the UTF-8 bytes of a text, in lower-case hexadecimal. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

/** Returns the root of the tenant's log after an entry: the hash of the previous root and the hash of the entry. */
export function nextRoot(root: string, hash: string): string {
  return hashOf(root + hash)
}

/** The invalid part: the content of an entry, its link to the previous entry, or the order. */
export type ChainFault = 'content' | 'link' | 'order'

/** The last entry before a list of entries. */
export interface Anchor {
  readonly seq: number
  readonly hash: string | null
}

export interface FindingVerification {
  readonly entries: number
  /** The last valid entry. */
  readonly last: Anchor
  readonly fault: { readonly seq: number; readonly problem: ChainFault } | null
}

/** Verifies the entries of one finding in the order of their `seq`, from the first or after `after`. */
export function verifyFindingLog(
  entries: Iterable<ChainedEntry>,
  after: Anchor = { seq: 0, hash: null },
): FindingVerification {
  let last = after
  let count = 0
  for (const entry of entries) {
    const problem = findFault(entry, last)
    if (problem !== undefined) return { entries: count, last, fault: { seq: entry.seq, problem } }
    last = { seq: entry.seq, hash: entry.hash }
    count += 1
  }
  return { entries: count, last, fault: null }
}

function findFault(entry: ChainedEntry, last: Anchor): ChainFault | undefined {
  if (entry.seq !== last.seq + 1) return 'order'
  if (entry.prev_hash !== last.hash) return 'link'
  return hashOf(sealEntry(entry)) === entry.hash ? undefined : 'content'
}
