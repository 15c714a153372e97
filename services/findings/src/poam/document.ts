import type { EvidenceRef } from '@postern/contracts'
import type { PoamMaker } from './rules.ts'
import type { Piece, StoredPiece } from './store.ts'

/** The pieces of a log follow their risk. */
export interface PoamDocument {
  readonly maker: PoamMaker
  readonly lastModified: string
  readonly pieces: AsyncIterable<StoredPiece>
}

const lists: Readonly<Record<Piece['part'], string>> = {
  observation: 'observations',
  risk: 'risks',
  log: 'risks',
  finding: 'findings',
  item: 'poam-items',
}

export async function* textOf({ maker, lastModified, pieces }: PoamDocument): AsyncGenerator<string> {
  const head = { uuid: maker.uuid, metadata: maker.metadata(lastModified), 'system-id': maker.systemId }
  yield `{"plan-of-action-and-milestones":${JSON.stringify(head).slice(0, -1)}`
  const risk = new OpenRisk(maker)
  let list = ''
  for await (const piece of pieces) {
    // Closes the previous risk, unless the piece belongs to its log.
    const closing = piece.part === 'log' ? '' : risk.end()
    if (lists[piece.part] === list) {
      yield `${closing}${piece.part === 'log' ? '' : ','}`
    } else {
      yield `${closing}${list === '' ? '' : ']'},"${lists[piece.part]}":[`
      list = lists[piece.part]
    }
    yield formatPiece(maker, risk, piece)
  }
  yield `${risk.end()}]}}\n`
}

function formatPiece(maker: PoamMaker, risk: OpenRisk, { part, finding, ...piece }: StoredPiece): string {
  if (part === 'log') return risk.entries(piece)
  if (finding === null) throw new Error('a selected finding was not found')
  switch (part) {
    case 'observation': {
      const named = (piece.evidence ?? []).flat()
      const once = new Map<string, EvidenceRef>(named.map((ref) => [ref.evidence_id, ref]))
      return JSON.stringify(maker.observation(finding, [...once.values()]))
    }
    case 'risk':
      return risk.begin(finding, piece)
    case 'finding':
      return JSON.stringify(maker.finding(finding))
    case 'item':
      return JSON.stringify(maker.item(finding))
    default:
      return part satisfies never
  }
}

class OpenRisk {
  readonly #maker: PoamMaker
  #isOpen = false
  #hasLog = false
  /** Excludes cancelled plans and plans newer than the export. */
  #responses: ReadonlySet<string> = new Set()

  constructor(maker: PoamMaker) {
    this.#maker = maker
  }

  begin(
    finding: Parameters<PoamMaker['risk']>[0],
    { recommendations, plans }: Pick<StoredPiece, 'recommendations' | 'plans'>,
  ): string {
    const parts = { recommendations: recommendations ?? [], plans: plans ?? [] }
    this.#isOpen = true
    this.#hasLog = false
    this.#responses = new Set([...parts.recommendations, ...parts.plans].map(({ id }) => id))
    return JSON.stringify(this.#maker.risk(finding, parts)).slice(0, -1)
  }

  entries({ entries }: Pick<StoredPiece, 'entries'>): string {
    const texts = (entries ?? []).map((entry) => JSON.stringify(this.#maker.logEntry(entry, this.#responses)))
    if (texts.length === 0) return ''
    const before = this.#hasLog ? ',' : ',"risk-log":{"entries":['
    this.#hasLog = true
    return `${before}${texts.join(',')}`
  }

  end(): string {
    if (!this.#isOpen) return ''
    this.#isOpen = false
    return this.#hasLog ? ']}}' : '}'
  }
}
