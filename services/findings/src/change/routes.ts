import { createHash } from 'node:crypto'
import { type Change, type ChangeKind, changeKinds, listChanges as listRoute } from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, knownScopes, problem } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { type FeedBounds, type FeedPlace, type StoredChange, findBounds, listChanges } from './store.ts'

/** The change feed of the tenant, for all services: what they change is noted in the database, by kind and id. */
export function changeRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, listRoute, async ({ query, context, answer, raw }) => {
    const given = query.since === undefined || query.since === 'now' ? undefined : readCursor(query.since, context)
    const after = given ?? { position: '0', ordinal: null }
    const kinds = readableKinds(context)
    // One state of the database for both: what the bounds hold, the list holds.
    const [bounds, rows] = await db.read(context, async (tx) =>
      Promise.all([
        findBounds(tx),
        query.since === 'now' ? [] : listChanges(tx, { after, kinds, limit: query.limit + 1 }),
      ]),
    )
    if (given !== undefined) assertKept(given, bounds)
    const page = rows.slice(0, query.limit)
    const last = page.at(-1)
    const next: FeedPlace =
      rows.length > query.limit && last !== undefined ? last : { position: bounds.last, ordinal: null }
    answer.header('link', `<${linkTo(raw, writeCursor(next, context))}>; rel="next"`)
    answer.header('cache-control', 'no-store')
    return page.map(asChange)
  })
}

function readableKinds(context: RequestInfo['context']): ChangeKind[] {
  const scopes = knownScopes(context)
  return Object.entries(changeKinds).flatMap(([kind, scope]) => (isKind(kind) && scopes.includes(scope) ? [kind] : []))
}

function isKind(text: string): text is ChangeKind {
  return text in changeKinds
}

/**
 * Refuses a place behind which changes are gone. A place in the middle of the last transaction that was removed is one:
 * the rest of it cannot be told any more.
 */
function assertKept({ position, ordinal }: FeedPlace, { last, pruned }: FeedBounds): void {
  // No position was ever given out there: the cursor is not one of ours.
  if (BigInt(position) > BigInt(last)) throw refuseCursor()
  if (BigInt(position) > BigInt(pruned) || (BigInt(position) === BigInt(pruned) && ordinal === null)) return
  throw problem('cursor_expired', {
    detail: 'Ask with since=now, keep the link, read the lists anew, and follow the link from then on.',
  })
}

// A cursor is bound to its tenant, so that it cannot be used for another by mistake. It holds nothing secret: positions
// are counted for each tenant alone.
const cursorSchema = z.tuple([
  z.string(),
  z.string().regex(/^(?:0|[1-9][0-9]{0,17})$/),
  z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .nullable(),
])

function readCursor(text: string, context: RequestInfo['context']): FeedPlace {
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
  } catch {
    throw refuseCursor()
  }
  const cursor = cursorSchema.safeParse(value)
  if (!cursor.success || cursor.data[0] !== bindingOf(context)) throw refuseCursor()
  return { position: cursor.data[1], ordinal: cursor.data[2] }
}

function writeCursor({ position, ordinal }: FeedPlace, context: RequestInfo['context']): string {
  return Buffer.from(JSON.stringify([bindingOf(context), position, ordinal])).toString('base64url')
}

function bindingOf({ tenantId }: RequestInfo['context']): string {
  return createHash('sha256').update(`${tenantId}\n${listRoute.id}`).digest('base64url').slice(0, 22)
}

function linkTo(raw: RequestInfo['raw'], cursor: string): string {
  const search = new URLSearchParams((raw.raw.url ?? '').split('?', 2)[1] ?? '')
  search.set('since', cursor)
  return `${listRoute.path}?${search}`
}

function refuseCursor(): Error {
  return problem('bad_request', {
    detail: 'The cursor does not belong to this feed. Take it from the Link header as it is.',
    errors: [{ parameter: 'since', code: 'invalid', detail: 'is not a cursor of this feed' }],
  })
}

function asChange({ kind, resourceId, change, version, committedAt }: StoredChange): Change {
  return { kind, id: resourceId, change, version, changed_at: committedAt.toISOString() }
}
