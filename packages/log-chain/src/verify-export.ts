import type { JSONWebKeySet } from 'jose'
import { type Anchor, type ChainFault, emptyRoot, nextRoot, parseEntry, verifyFindingLog } from './chain.ts'
import { type Checkpoint, verifyCheckpoint } from './checkpoint.ts'

export interface ExportReport {
  readonly isIntact: boolean
  readonly entries: number
  readonly findings: number
  readonly root: string
  /** The first hundred. */
  readonly faults: readonly { readonly line: number; readonly problem: ChainFault | 'form' }[]
  readonly moreFaults: number
  readonly checkpoints: readonly {
    readonly checkpoint: Checkpoint | undefined
    readonly outcome: 'agrees' | 'contradicts' | 'beyond-export' | 'not-signed-by-these-keys'
  }[]
}

const maxFaults = 100

/** Verifies NDJSON in the order of `position`. Memory grows with the number of findings. */
export async function verifyExport(
  lines: AsyncIterable<string> | Iterable<string>,
  checkpoints: readonly string[] = [],
  keys: JSONWebKeySet = { keys: [] },
): Promise<ExportReport> {
  const signed = await Promise.all(checkpoints.map(async (jws) => await verifyCheckpoint(jws.trim(), keys)))
  const checkpointPositions = new Set(signed.map((checkpoint) => checkpoint?.position))
  const rootAt = new Map<number, string>([[0, emptyRoot]])
  const lastOfFinding = new Map<string, Anchor>()
  const faults: { line: number; problem: ChainFault | 'form' }[] = []
  let moreFaults = 0
  const recordFault = (problem: ChainFault | 'form' | undefined): void => {
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
      recordFault('form')
      position += 1
    } else {
      const { fault } = verifyFindingLog([entry], lastOfFinding.get(entry.finding_id))
      recordFault(entry.position === position + 1 ? fault?.problem : 'order')
      lastOfFinding.set(entry.finding_id, { seq: entry.seq, hash: entry.hash })
      position = entry.position
      root = nextRoot(root, entry.hash)
      if (checkpointPositions.has(entries)) rootAt.set(entries, root)
    }
  }
  const results = signed.map((checkpoint) => ({ checkpoint, outcome: compareCheckpoint(checkpoint, rootAt, entries) }))
  return {
    isIntact: faults.length === 0 && results.every(({ outcome }) => outcome === 'agrees'),
    entries,
    findings: lastOfFinding.size,
    root,
    faults,
    moreFaults,
    checkpoints: results,
  }
}

function compareCheckpoint(
  checkpoint: Checkpoint | undefined,
  rootAt: ReadonlyMap<number, string>,
  entries: number,
): ExportReport['checkpoints'][number]['outcome'] {
  if (checkpoint === undefined) return 'not-signed-by-these-keys'
  if (checkpoint.position > entries) return 'beyond-export'
  return rootAt.get(checkpoint.position) === checkpoint.root ? 'agrees' : 'contradicts'
}

/** Also undefined for a repeated member, because only one value would be hashed. */
function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    // In valid JSON, every colon outside a string follows a member name.
    const colons = text.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '').split(':').length - 1
    return countMembers(value) === colons ? value : undefined
  } catch {
    return undefined
  }
}

function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value).reduce((sum: number, each: unknown) => sum + countMembers(each), 0)
  return Array.isArray(value) ? inner : inner + Object.keys(value).length
}
