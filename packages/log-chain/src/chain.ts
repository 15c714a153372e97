import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { z } from 'zod'

/** The root of a log that has no entry yet. */
export const emptyRoot: string = '0'.repeat(64)

/** What the chain needs of an entry; its other members are hashed with it, whatever they are. */
const chainedSchema = z.looseObject({
  position: z.int().min(1),
  seq: z.int().min(1),
  finding_id: z.string(),
  prev_hash: z.string().nullable(),
  hash: z.string(),
})
export type ChainedEntry = z.infer<typeof chainedSchema>

/** Reads one entry of an export; undefined where it is none. */
export function parseEntry(value: unknown): ChainedEntry | undefined {
  return chainedSchema.safeParse(value).data
}

/**
 * The canonical JSON (RFC 8785) of an entry without its hash and position: the text that is stored and hashed. The root of
 * the tenant's log says which position the entry has.
 */
export function sealEntry(entry: Readonly<Record<string, unknown>>): string {
  const { position: _position, hash: _hash, ...content } = entry
  const text = canonicalize(content)
  if (text === undefined) throw new TypeError('an entry of the log must be JSON')
  return text
}

/** SHA-256 in lower-case hex of a text in UTF-8. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

/** The root of the tenant's log behind an entry: over the root before and the hash of the entry. */
export function nextRoot(root: string, hash: string): string {
  return hashOf(root + hash)
}

/** What does not hold: what an entry says, what it says of the one before, or its place. */
export type ChainFault = 'content' | 'link' | 'order'

/** Where a list of entries begins: behind the entry with this number and hash. */
export interface Anchor {
  readonly seq: number
  readonly hash: string | null
}

export interface FindingVerification {
  readonly entries: number
  /** Of the last entry that holds. */
  readonly last: Anchor
  readonly fault: { readonly seq: number; readonly problem: ChainFault } | null
}

/** Checks the entries of one finding, given in the order of their `seq`, from the first or from behind `after`. */
export function verifyFindingLog(
  entries: Iterable<ChainedEntry>,
  after: Anchor = { seq: 0, hash: null },
): FindingVerification {
  let last = after
  let count = 0
  for (const entry of entries) {
    const problem = faultOf(entry, last)
    if (problem !== undefined) return { entries: count, last, fault: { seq: entry.seq, problem } }
    last = { seq: entry.seq, hash: entry.hash }
    count += 1
  }
  return { entries: count, last, fault: null }
}

function faultOf(entry: ChainedEntry, last: Anchor): ChainFault | undefined {
  if (entry.seq !== last.seq + 1) return 'order'
  if (entry.prev_hash !== last.hash) return 'link'
  return hashOf(sealEntry(entry)) === entry.hash ? undefined : 'content'
}
