import { Readable } from 'node:stream'
import { exportPoam, maxPoamFindings } from '@postern/contracts'
import {
  type App,
  type RequestInfo,
  StreamedAnswer,
  allPages,
  contractRoute,
  problem,
  streamList,
} from '@postern/service-kit'
import { findUpdatedSince } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import { type FindingFilter, findingStamps, listFindingStamps } from '../finding/list/store.ts'
import { filterOf } from '../finding/routes.ts'
import { entityIdsOf } from '../reference/resolve.ts'
import { entitiesOfFilter, ownersOfFilter } from '../universe/filter.ts'
import { type PoamDocument, textOf } from './document.ts'
import { type PoamMaker, createPoamMaker, poamStatuses } from './rules.ts'
import {
  type Piece,
  type StoredPiece,
  countEntries,
  entriesPerPiece,
  findLastChange,
  listPieces,
  listOwnersOf,
} from './store.ts'

type Context = RequestInfo['context']

const pieceBatch = 25
const choiceBatch = 250

export function poamRoutes(app: App, { db, now, universe }: Pick<Deps, 'db' | 'now' | 'universe'>): void {
  contractRoute(app, exportPoam, async ({ query, context, requestId, log, mediaType, answer, raw }) => {
    context.share?.enterLargeAnswer()
    const today = now().toISOString().slice(0, 10)
    const filter = {
      ...filterOf({ ...query, status: query.status ?? [...poamStatuses] }, today),
      updatedSince: await findUpdatedSince(db, { query, context }),
      owner: await ownersOfFilter(query.owner, { context, requestId, log }, universe),
      namedEntityIds: await entityIdsOf(query.entity_id, { context, requestId }, universe),
      entityIds: await entitiesOfFilter(query, { context, requestId }, universe),
    }
    const search = new URLSearchParams((raw.raw.url ?? '').split('?', 2)[1] ?? '')
    search.sort()
    const maker = createPoamMaker(context.tenantId, search.toString())
    // Selected first, so that references stay valid if findings change during the export.
    const { pieces, lastModified } = await selectFindings(db, context, filter, maker)
    answer.header('content-disposition', 'attachment; filename="poam.json"')
    const isHead = raw.method === 'HEAD'
    const document: PoamDocument = { maker, lastModified, pieces: readPieces(db, context, pieces, today) }
    const text = isHead ? [] : textOf(document)
    return new StreamedAnswer(`${mediaType}; charset=utf-8`, Readable.from(text, { objectMode: false }))
  })
}

/** Reads the pieces in order, even if sending them outlives the assertion. */
async function* readPieces(
  db: Deps['db'],
  context: Context,
  pieces: readonly Piece[],
  today: string,
): AsyncGenerator<StoredPiece> {
  let done = 0
  const placed = streamList(db, context, {
    after: 0,
    size: pieceBatch,
    list: async (tx, after: number | undefined = 0, limit) => {
      const stored = await listPieces(tx, pieces.slice(after, after + limit), today)
      // A followed query calls this once per batch.
      const from = done
      done += stored.length
      return stored.map((piece, at) => ({ piece, place: from + at }))
    },
    keyOf: ({ place }) => place + 1,
  })
  for await (const { piece } of placed) yield piece
}

interface Selection {
  readonly pieces: readonly Piece[]
  readonly lastModified: string
}

async function selectFindings(
  db: Deps['db'],
  context: Context,
  filter: FindingFilter,
  maker: PoamMaker,
): Promise<Selection> {
  const ids: string[] = []
  const entries = new Map<string, number>()
  let last = new Date(0)
  const pages = allPages(
    context,
    undefined,
    choiceBatch,
    async (after: Parameters<typeof listFindingStamps>[2]['after'], limit) => {
      const rows = await db.read(context, async (tx) => listFindingStamps(tx, filter, { after, limit }))
      if (rows.length === 0) return rows
      const of = rows.map(({ id }) => id)
      const [owners, changed, counted] = await db.read(context, async (tx) =>
        Promise.all([listOwnersOf(tx, of), findLastChange(tx, of), countEntries(tx, of)]),
      )
      for (const owner of owners) maker.addParty(owner)
      for (const [id, count] of counted) entries.set(id, count)
      if (changed !== undefined && changed > last) last = changed
      return rows
    },
    (row) => findingStamps.keyOf(row, 'created_at'),
  )
  for await (const { id, updated_at } of pages) {
    if (ids.length === maxPoamFindings) {
      throw problem('bad_request', {
        detail: `The filter selects more than ${maxPoamFindings} findings. Narrow it by status, severity or date.`,
        errors: [{ parameter: 'status', code: 'too_large', detail: `must select at most ${maxPoamFindings} findings` }],
      })
    }
    ids.push(id)
    if (new Date(updated_at) > last) last = new Date(updated_at)
  }
  if (ids.length === 0) {
    throw problem('not_found', { detail: 'The filter selects no finding. A plan of action needs at least one.' })
  }
  return { pieces: piecesOf(ids, entries), lastModified: last.toISOString() }
}

function piecesOf(ids: readonly string[], entries: ReadonlyMap<string, number>): Piece[] {
  const each = (part: Piece['part']) => ids.map((findingId) => ({ part, findingId, after: 0 }))
  const logOf = (findingId: string) =>
    Array.from({ length: Math.ceil((entries.get(findingId) ?? 0) / entriesPerPiece) }, (_, at) => ({
      part: 'log' as const,
      findingId,
      after: at * entriesPerPiece,
    }))
  const risks = each('risk').flatMap((risk) => [risk, ...logOf(risk.findingId)])
  return [...each('observation'), ...risks, ...each('finding'), ...each('item')]
}
