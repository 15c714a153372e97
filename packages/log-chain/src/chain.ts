import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { z } from 'zod'

export const emptyRoot: string = '0'.repeat(64)

/** All other members are hashed too. */
const chainedSchema = z.looseObject({
  position: z.int().min(1),
  seq: z.int().min(1),
  finding_id: z.string(),
  prev_hash: z.string().nullable(),
  hash: z.string(),
})
export type ChainedEntry = z.infer<typeof chainedSchema>

/** Undefined if the entry is invalid. */
export function parseEntry(value: unknown): ChainedEntry | undefined {
  return chainedSchema.safeParse(value).data
}

/** Canonical JSON (RFC 8785) without hash and position, which the root covers. */
export function sealEntry(entry: Readonly<Record<string, unknown>>): string {
  const { position: _position, hash: _hash, ...content } = entry
  const text = canonicalize(content)
  if (text === undefined) throw new TypeError('an entry of the log must be JSON')
  return text
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

export function nextRoot(root: string, hash: string): string {
  return hashOf(root + hash)
}

export type ChainFault = 'content' | 'link' | 'order'

export interface Anchor {
  readonly seq: number
  readonly hash: string | null
}

export interface FindingVerification {
  readonly entries: number
  readonly last: Anchor
  readonly fault: { readonly seq: number; readonly problem: ChainFault } | null
}

/** Verifies the entries of a finding in the order of `seq`, from the first or after `after`. */
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
