import type { JSONWebKeySet } from 'jose'
import { type Anchor, type ChainFault, emptyRoot, nextRoot, parseEntry, verifyFindingLog } from './chain.ts'
import { type Checkpoint, verifyCheckpoint } from './checkpoint.ts'

/** What became of an export of the log: every fault by its line, and which checkpoints it agrees with. */
export interface ExportReport {
  readonly isIntact: boolean
  readonly entries: number
  readonly findings: number
  /** Root behind the last entry. */
  readonly root: string
  /** The first hundred. */
  readonly faults: readonly { readonly line: number; readonly problem: ChainFault | 'form' }[]
  /** How many there are behind these. */
  readonly moreFaults: number
  readonly checkpoints: readonly {
    readonly checkpoint: Checkpoint | undefined
    readonly outcome: 'agrees' | 'contradicts' | 'beyond-export' | 'not-signed-by-these-keys'
  }[]
}

const maxFaults = 100

/**
 * Checks a complete export (`GET /api/v1/remediation-log` as NDJSON, in the order of `position` from the first) and
 * holds it against checkpoints kept from earlier. Needs nothing but these and the public keys: no network, no trust in
 * whoever gave the export. Memory grows with the number of findings, not of entries. Behind a fault each entry is taken for what it
 * says that it is: what was not changed is not told to be wrong, and the whole export is read, so that its end is known.
 */
export async function verifyExport(
  lines: AsyncIterable<string> | Iterable<string>,
  checkpoints: readonly string[] = [],
  keys: JSONWebKeySet = { keys: [] },
): Promise<ExportReport> {
  const signed = await Promise.all(checkpoints.map(async (jws) => await verifyCheckpoint(jws.trim(), keys)))
  const wanted = new Set(signed.map((checkpoint) => checkpoint?.position))
  const rootAt = new Map<number, string>([[0, emptyRoot]])
  const ends = new Map<string, Anchor>()
  const faults: { line: number; problem: ChainFault | 'form' }[] = []
  let moreFaults = 0
  const note = (problem: ChainFault | 'form' | undefined): void => {
    if (problem === undefined) return
    if (faults.length < maxFaults) faults.push({ line, problem })
    else moreFaults += 1
  }
  let root = emptyRoot
  let entries = 0
  let position = 0
  let line = 0
  for await (const text of lines) {
    line += 1
    if (text.trim() === '') continue
    entries += 1
    const entry = parseEntry(parseJson(text))
    if (entry === undefined) {
      note('form')
      position += 1
    } else {
      const { fault } = verifyFindingLog([entry], ends.get(entry.finding_id))
      note(entry.position === position + 1 ? fault?.problem : 'order')
      ends.set(entry.finding_id, { seq: entry.seq, hash: entry.hash })
      position = entry.position
      root = nextRoot(root, entry.hash)
      if (wanted.has(entries)) rootAt.set(entries, root)
    }
  }
  const results = signed.map((checkpoint) => ({ checkpoint, outcome: outcomeOf(checkpoint, rootAt, entries) }))
  return {
    isIntact: faults.length === 0 && results.every(({ outcome }) => outcome === 'agrees'),
    entries,
    findings: ends.size,
    root,
    faults,
    moreFaults,
    checkpoints: results,
  }
}

function outcomeOf(
  checkpoint: Checkpoint | undefined,
  rootAt: ReadonlyMap<number, string>,
  entries: number,
): ExportReport['checkpoints'][number]['outcome'] {
  if (checkpoint === undefined) return 'not-signed-by-these-keys'
  if (checkpoint.position > entries) return 'beyond-export'
  return rootAt.get(checkpoint.position) === checkpoint.root ? 'agrees' : 'contradicts'
}

/** Undefined too where a member stands twice in its object: the hash is of one of them, and another reader may take the other. */
function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    // Of JSON that is valid, a colon outside of strings is that of a member.
    const given = text.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '').split(':').length - 1
    return membersIn(value) === given ? value : undefined
  } catch {
    return undefined
  }
}

/** Members of all objects in a value. */
function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value).reduce((sum: number, each: unknown) => sum + membersIn(each), 0)
  return Array.isArray(value) ? inner : inner + Object.keys(value).length
}
