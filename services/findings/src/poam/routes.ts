import { Readable } from 'node:stream'
import { type EvidenceRef, exportPoam, maxPoamFindings } from '@postern/contracts'
import { type App, type RequestInfo, StreamedAnswer, allPages, contractRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type FindingFilter, findingList, listFindings } from '../finding/list/store.ts'
import { filterOf } from '../finding/routes.ts'
import type { StoredFinding } from '../finding/rules.ts'
import { entitiesOfFilter } from '../universe/filter.ts'
import { type PoamEntry, type PoamMaker, type RiskParts, makePoam, poamStatuses } from './rules.ts'
import { findFindings, findLastChange, listEntries, listEvidence, listPlansOf, listRecommendationsOf } from './store.ts'

type Context = RequestInfo['context']

/** Findings that an export holds in memory at a time, and entries of the log of one that it does. */
const batch = 25
const entriesAtOnce = 50
/** Findings that are looked at together to choose them. */
const chosenAtOnce = 250

/** The export of findings, recommendations, action plans and their logs as an OSCAL plan of action and milestones. */
export function poamRoutes(app: App, { db, now, universe }: Pick<Deps, 'db' | 'now' | 'universe'>): void {
  contractRoute(app, exportPoam, async ({ query, context, requestId, mediaType, answer, raw }) => {
    const filter = {
      ...filterOf({ ...query, status: query.status ?? [...poamStatuses] }, now().toISOString().slice(0, 10)),
      entityIds: await entitiesOfFilter(query, { context, requestId }, universe),
    }
    const search = new URLSearchParams((raw.raw.url ?? '').split('?', 2)[1] ?? '')
    search.sort()
    const maker = makePoam(context.tenantId, search.toString())
    // What the document is about is decided first: its parts refer to each other, whatever is written meanwhile.
    const { ids, lastModified } = await select(db, context, filter, maker)
    answer.header('content-disposition', 'attachment; filename="poam.json"')
    const isHead = raw.method === 'HEAD'
    const text = isHead ? [] : documentOf(db, context, ids, maker, lastModified)
    return new StreamedAnswer(`${mediaType}; charset=utf-8`, Readable.from(text, { objectMode: false }))
  })
}

interface Selection {
  /** In the order of their creation. */
  readonly ids: readonly string[]
  readonly lastModified: string
}

async function select(db: Deps['db'], context: Context, filter: FindingFilter, maker: PoamMaker): Promise<Selection> {
  const ids: string[] = []
  let last = new Date(0)
  const pages = allPages(
    undefined,
    chosenAtOnce,
    async (after: Parameters<typeof listFindings>[2]['after'], limit) => {
      const rows = await db.read(context, async (tx) => listFindings(tx, filter, { sort: 'created_at', after, limit }))
      if (rows.length === 0) return rows
      const of = rows.map(({ id }) => id)
      const [plans, changed] = await db.read(context, async (tx) =>
        Promise.all([listPlansOf(tx, of), findLastChange(tx, of)]),
      )
      for (const { owner } of plans) maker.addParty(owner)
      if (changed !== undefined && changed > last) last = changed
      return rows
    },
    (row) => findingList.keyOf(row, 'created_at'),
  )
  for await (const { id, updated_at } of pages) {
    if (ids.length === maxPoamFindings) {
      throw problem('bad_request', {
        detail: `There are more than ${maxPoamFindings} findings. Export a part of them: filter by status, severity or date.`,
      })
    }
    ids.push(id)
    if (new Date(updated_at) > last) last = new Date(updated_at)
  }
  if (ids.length === 0) {
    throw problem('not_found', { detail: 'No finding is left to export. A plan of action holds at least one.' })
  }
  return { ids, lastModified: last.toISOString() }
}

/** The document piece by piece: one pass for each of its lists, each reading what it needs of a batch of findings. */
async function* documentOf(
  db: Deps['db'],
  context: Context,
  ids: readonly string[],
  maker: PoamMaker,
  lastModified: string,
): AsyncGenerator<string> {
  const head = { uuid: maker.uuid, metadata: maker.metadata(lastModified), 'system-id': maker.systemId }
  yield `{"plan-of-action-and-milestones":${JSON.stringify(head).slice(0, -1)}`
  yield* list('observations', observations(db, context, ids, maker))
  yield* list('risks', risks(db, context, ids, maker))
  yield* list('findings', each(db, context, ids, maker.finding))
  yield* list('poam-items', each(db, context, ids, maker.item))
  yield '}}\n'
}

/** A member of the document. An item is a text of JSON, or the pieces of one. */
async function* list(name: string, items: AsyncIterable<string | AsyncIterable<string>>): AsyncGenerator<string> {
  yield `,"${name}":[`
  let separator = ''
  for await (const item of items) {
    yield separator
    if (typeof item === 'string') yield item
    else yield* item
    separator = ','
  }
  yield ']'
}

async function* each(
  db: Deps['db'],
  context: Context,
  ids: readonly string[],
  show: (finding: StoredFinding) => object,
): AsyncGenerator<string> {
  for (const part of batches(ids)) {
    const found = await db.read(context, async (tx) => findFindings(tx, part))
    for (const finding of inOrder(part, found)) yield JSON.stringify(show(finding))
  }
}

async function* observations(
  db: Deps['db'],
  context: Context,
  ids: readonly string[],
  maker: PoamMaker,
): AsyncGenerator<string> {
  for (const part of batches(ids)) {
    const [found, named] = await db.read(context, async (tx) =>
      Promise.all([findFindings(tx, part), listEvidence(tx, part)]),
    )
    for (const finding of inOrder(part, found)) {
      const refs = named.flatMap((entry) => (entry.finding_id === finding.id ? entry.refs : []))
      const once = new Map<string, EvidenceRef>(refs.map((ref) => [ref.evidence_id, ref]))
      yield JSON.stringify(maker.observation(finding, [...once.values()]))
    }
  }
}

async function* risks(
  db: Deps['db'],
  context: Context,
  ids: readonly string[],
  maker: PoamMaker,
): AsyncGenerator<AsyncIterable<string>> {
  for (const part of batches(ids)) {
    const [found, recommendations, plans, logs] = await db.read(context, async (tx) =>
      Promise.all([
        findFindings(tx, part),
        listRecommendationsOf(tx, part),
        listPlansOf(tx, part),
        Promise.all(part.map(async (id) => await listEntries(tx, id, 0, entriesAtOnce))),
      ]),
    )
    for (const [at, id] of part.entries()) {
      const finding = found.get(id)
      if (finding === undefined) continue
      const parts = {
        recommendations: recommendations.filter(({ finding_id }) => finding_id === id),
        plans: plans.filter(({ finding_id }) => finding_id === id),
      }
      const more = async (after: number) =>
        await db.read(context, async (tx) => listEntries(tx, id, after, entriesAtOnce))
      yield riskOf(maker, finding, parts, { first: logs[at] ?? [], more })
    }
  }
}

interface Log {
  readonly first: readonly PoamEntry[]
  more(after: number): Promise<readonly PoamEntry[]>
}

/** A risk in pieces: its log may be long. */
async function* riskOf(maker: PoamMaker, finding: StoredFinding, parts: RiskParts, log: Log): AsyncGenerator<string> {
  yield JSON.stringify(maker.risk(finding, parts)).slice(0, -1)
  // What the risk does not hold, its log cannot refer to: a plan that was cancelled, or is newer than the export.
  const responses = new Set([...parts.recommendations, ...parts.plans].map(({ id }) => id))
  let entries = log.first
  if (entries.length > 0) yield ',"risk-log":{"entries":['
  for (let separator = ''; entries.length > 0; entries = await log.more(entries.at(-1)?.seq ?? 0)) {
    for (const entry of entries) {
      yield `${separator}${JSON.stringify(maker.logEntry(entry, responses))}`
      separator = ','
    }
    if (entries.length < entriesAtOnce) break
  }
  yield log.first.length > 0 ? ']}}' : '}'
}

function batches(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / batch) }, (_, at) => ids.slice(at * batch, (at + 1) * batch))
}

function inOrder(ids: readonly string[], found: ReadonlyMap<string, StoredFinding>): StoredFinding[] {
  return ids.flatMap((id) => found.get(id) ?? [])
}
