import { createHash } from 'node:crypto'
import { type Change, type ChangeKind, changeKinds, listChanges as listRoute } from '@postern/contracts'
import {
  type App,
  type ContractInput,
  type RequestInfo,
  contractList,
  knownScopes,
  heartbeat,
  problem,
} from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import {
  type FeedBounds,
  type FeedPlace,
  type StoredChange,
  findBounds,
  findMark,
  findWindowEnd,
  listChanges,
  assignChangePositions,
  windowLength,
} from './store.ts'

export function changeRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const openFeed = async ({ query, context, limit }: Pick<Input, 'query' | 'context'> & { readonly limit: number }) => {
    const given = query.since === undefined || query.since === 'now' ? undefined : readCursor(query.since, context)
    const kinds = readableKinds(context)
    const after: FeedPlace = given ?? { position: '0', ordinal: null, mark: null }
    const first = query.since === 'now' ? undefined : { after, kinds, limit }
    let window = await readWindow(db, context, first)
    if (window.bounds.hasUnplaced) {
      // The response contains everything committed before the request.
      while (await db.write(context, assignChangePositions));
      window = await readWindow(db, context, first)
    }
    if (given !== undefined) assertNotExpired(given, window.bounds, window.mark)
    return { window, kinds, after }
  }

  const page = async ({ query, context, answer, raw }: Input) => {
    const { limit } = query
    const opened = await openFeed({ query, context, limit })
    const { kinds } = opened
    let { window, after } = opened
    // The caller may not read any of many changes in a row. An empty page means the end, or the limit of windows.
    for (let windows = 1; window.page.length === 0 && window.isCut && windows < maxWindows; windows += 1) {
      after = window.next
      window = await readWindow(db, context, { after, kinds, limit })
    }
    const { page: changes, next, isCut } = window
    const binding = bindingOf(context)
    const onward = writeCursor(next, binding)
    answer.header('postern-next-since', onward)
    // Without a link, loaders that follow links end. `since=now` is the start of a reader, which may keep the link.
    if (isCut || query.follow === 'true' || query.since === 'now') {
      answer.header('link', `<${linkTo(raw, onward)}>; rel="next"`)
    }
    answer.header('cache-control', 'no-store')
    return changes.map((change) => asChange(change, binding))
  }

  contractList<typeof listRoute, Change>(app, listRoute, {
    page,
    all: async function* ({ query, context, answer }) {
      const binding = bindingOf(context)
      const opened = await openFeed({ query, context, limit: exportBatch })
      const { kinds } = opened
      let { window } = opened
      const end = endOf(window.bounds)
      answer.header('postern-next-since', writeCursor(end, binding))
      answer.header('cache-control', 'no-store')
      for (;;) {
        for (const change of window.page) {
          if (BigInt(change.position) > BigInt(end.position)) return
          yield asChange(change, binding)
        }
        if (!window.isCut) return
        if (window.page.length === 0) yield heartbeat
        const after = window.next
        context.share?.releaseRows()
        window = await readWindow(db, context, { after, kinds, limit: exportBatch })
      }
    },
  })
}

type Input = ContractInput<typeof listRoute>

const exportBatch = 1000

const maxWindows = 25

/** Reads one window of changes, or only the end of the feed if `from` is undefined. `isCut`: more changes follow. */
async function readWindow(
  db: Deps['db'],
  context: RequestInfo['context'],
  from: { readonly after: FeedPlace; readonly kinds: readonly ChangeKind[]; readonly limit: number } | undefined,
): Promise<{
  readonly bounds: FeedBounds
  readonly page: readonly StoredChange[]
  readonly next: FeedPlace
  readonly isCut: boolean
  readonly mark: string | undefined
}> {
  const wanted = from === undefined ? undefined : { ...from, limit: from.limit + 1, window: windowLength }
  const [bounds, rows, mark] = await db.read(context, async (tx) =>
    Promise.all([
      findBounds(tx),
      wanted === undefined ? [] : listChanges(tx, wanted),
      from === undefined ? undefined : findMark(tx, from.after.position),
    ]),
  )
  const last = from === undefined ? undefined : rows.at(from.limit - 1)
  if (from === undefined || wanted === undefined) {
    return { bounds, page: [], next: endOf(bounds), isCut: false, mark }
  }
  if (rows.length === wanted.limit && last !== undefined) {
    return { bounds, page: rows.slice(0, from.limit), next: last, isCut: true, mark }
  }
  // Reads again in one snapshot, so that no change between the page and the end is lost.
  return await db.read(context, async (tx) => {
    const [then, page, end] = await Promise.all([
      findBounds(tx),
      listChanges(tx, wanted),
      findWindowEnd(tx, from.after, windowLength),
    ])
    const cut = page.length > from.limit ? page.at(from.limit - 1) : undefined
    return {
      bounds: then,
      page: page.slice(0, from.limit),
      next: cut ?? end ?? endOf(then),
      isCut: cut !== undefined || end !== undefined,
      mark,
    }
  })
}

function endOf({ last, lastMark }: FeedBounds): FeedPlace {
  return { position: last, ordinal: null, mark: lastMark }
}

function readableKinds(context: RequestInfo['context']): ChangeKind[] {
  const scopes = knownScopes(context)
  return Object.entries(changeKinds).flatMap(([kind, scope]) => (isKind(kind) && scopes.includes(scope) ? [kind] : []))
}

function isKind(text: string): text is ChangeKind {
  return text in changeKinds
}

/** Throws a 410 problem if changes were pruned, or if a restore of the database replaced the position. */
function assertNotExpired(
  { position, ordinal, mark: known }: FeedPlace,
  { last, pruned }: FeedBounds,
  mark: string | undefined,
): void {
  const isThere = BigInt(position) <= BigInt(last)
  const isBehindAll = BigInt(position) === BigInt(pruned) && ordinal === null
  if (isThere && (isBehindAll || (BigInt(position) > BigInt(pruned) && (known === null || known === mark)))) return
  throw problem('cursor_expired', {
    detail:
      'The position has expired. Request `since=now`, store `Postern-Next-Since`, read the lists again, then continue with that `since`.',
  })
}

// Not secret, because each tenant has its own positions.
const positionSchema = z.string().regex(/^(?:0|[1-9][0-9]{0,17})$/)
const ordinalSchema = z
  .int()
  .min(1)
  .max(2 ** 31 - 1)
  .nullable()
const markSchema = z
  .string()
  .regex(/^[\w-]{11}$/)
  .nullable()
const cursorSchema = z.tuple([z.string(), positionSchema, ordinalSchema, markSchema])

function readCursor(text: string, context: RequestInfo['context']): FeedPlace {
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
  } catch {
    throw invalidCursor()
  }
  const cursor = cursorSchema.safeParse(value)
  if (!cursor.success || cursor.data[0] !== bindingOf(context)) throw invalidCursor()
  return { position: cursor.data[1], ordinal: cursor.data[2], mark: cursor.data[3] }
}

function writeCursor({ position, ordinal, mark }: FeedPlace, binding: string): string {
  const parts = [binding, position, ordinal, mark]
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

function bindingOf({ tenantId }: RequestInfo['context']): string {
  return createHash('sha256').update(`${tenantId}\n${listRoute.id}`).digest('base64url').slice(0, 22)
}

function linkTo(raw: RequestInfo['raw'], cursor: string): string {
  const search = new URLSearchParams((raw.raw.url ?? '').split('?', 2)[1] ?? '')
  search.set('since', cursor)
  return `${listRoute.path}?${search}`
}

function invalidCursor(): Error {
  return problem('bad_request', {
    detail:
      'The position does not belong to this feed. Send the `position` of a change or the URL from the Link header unchanged.',
    errors: [{ parameter: 'since', code: 'invalid', detail: 'is not a position of this feed' }],
  })
}

function asChange(stored: StoredChange, binding: string): Change {
  const { kind, resourceId, change, version, committedAt } = stored
  const position = writeCursor(stored, binding)
  return { kind, id: resourceId, change, version, changed_at: committedAt.toISOString(), position }
}
