import { Readable } from 'node:stream'
import { type Route, maxExpanded, pageMediaType, tableColumnsOf, workbookMediaType } from '@postern/contracts'
import { parseAssertion } from '@postern/signed-context'
import { type AnswerBody, type ContractInput, registerContract } from './contract-route.ts'
import type { App } from './register-route.ts'
import { assertItemInContract } from './check-answers.ts'
import { asCsv, csvStyleOf } from './list-csv.ts'
import { asWorkbook } from './list-workbook.ts'
import { type JsonText, type JsonTexts, textOf, valueOf } from './json-text.ts'
import { problem } from './problem.ts'
import { requestedExpansions, requestedFields, selectFields } from './select-fields.ts'
import { StreamedAnswer } from './streamed-answer.ts'
import { type RequestContext, ShareExceededError } from './tenant-shares.ts'

/** Yielded while a search has found nothing yet. */
export const heartbeat: unique symbol = Symbol('heartbeat')

export interface ListHandlers<R extends Route, Item> {
  page(input: ContractInput<R>): Promise<AnswerBody<R> | JsonTexts>
  /** Reads only as fast as the client. */
  all(input: ContractInput<R>): AsyncIterable<Item | JsonText | typeof heartbeat>
}

/** If reading fails, the connection is cut, so that a partial export never looks complete. */
export function contractList<const R extends Route, Item extends object>(
  app: App,
  route: R,
  { page, all }: ListHandlers<R, Item>,
): void {
  const table = tableColumnsOf(route)
  const memory = createPageMemory()
  registerContract(app, route, async (input) => {
    assertExpandable(input)
    const isPage = isPaged(input.mediaType)
    assertPagedEnvelope(isPage, input.query)
    if (isPage) return await readFittingPage(page, input, memory)
    const items = await awaitFirst(checkItems(app, route, all(input)))
    const fields = requestedFields(input.query)
    const sent =
      input.raw.method === 'HEAD'
        ? await closeUnread(items)
        : mapRows(items, (item) =>
            fields === undefined || item === heartbeat ? item : selectFields(valueOf(item), fields),
          )
    const name = route.path.slice(route.path.lastIndexOf('/') + 1)
    const columns = table.filter(({ member }) => fields?.includes(member) ?? true)
    if (input.mediaType === 'text/csv') {
      input.answer.header('content-disposition', `attachment; filename="${name}.csv"`)
      return new StreamedAnswer(
        'text/csv; charset=utf-8; header=present',
        asCsv(withoutHeartbeats(sent), columns, csvStyleOf(input.query)),
      )
    }
    if (input.mediaType === workbookMediaType) {
      input.answer.header('content-disposition', `attachment; filename="${name}.xlsx"`)
      return new StreamedAnswer(workbookMediaType, asWorkbook(withoutHeartbeats(sent), name, columns))
    }
    return new StreamedAnswer('application/x-ndjson', Readable.from(asLines(sent), { objectMode: false }))
  })
}

function assertExpandable({
  mediaType,
  query,
}: {
  readonly mediaType: string
  readonly query: { readonly limit?: unknown }
}): void {
  if (requestedExpansions(query).length === 0) return
  if (!isPaged(mediaType)) {
    throw problem('bad_request', {
      detail: '`expand` works only in JSON pages. Request JSON, or omit `expand`.',
      errors: [{ parameter: 'expand', code: 'invalid', detail: `is not for ${mediaType}` }],
    })
  }
  if (typeof query.limit === 'number' && query.limit > maxExpanded) {
    throw problem('bad_request', {
      errors: [{ parameter: 'limit', code: 'too_big', detail: `must be at most ${maxExpanded} with \`expand\`` }],
    })
  }
}

function isPaged(mediaType: string): boolean {
  return mediaType === 'application/json' || mediaType === pageMediaType
}

function assertPagedEnvelope(isPage: boolean, query: object): void {
  if (isPage || Reflect.get(query, 'envelope') !== 'true') return
  throw problem('bad_request', {
    detail: '`envelope` works only in JSON pages. Request `format=json`, or omit `envelope`.',
    errors: [{ parameter: 'envelope', code: 'invalid', detail: 'is only for JSON pages' }],
  })
}

const shrinkFactor = 8

/** Whether the error is ResultTooLargeError of tenant-db, which not every service imports. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && error.name === 'ResultTooLargeError'
}

const maxRemembered = 1000
const pagesBetweenTries = 16

interface PageMemory {
  fittingLimit(tenantId: string, asked: number): number
  expectedBytes(tenantId: string, asked: number): number | undefined
  record(tenantId: string, page: PageRead): void
}

interface PageRead {
  readonly asked: number
  readonly limit: number
  readonly rows: number
  readonly bytes: number
}

function createPageMemory(): PageMemory {
  const known = new Map<string, { readonly limit: number; readonly pages: number; readonly itemBytes: number }>()

  function fittingLimit(tenantId: string, asked: number): number {
    const { limit = Infinity, pages = 0 } = known.get(tenantId) ?? {}
    return Math.min(asked, pages === pagesBetweenTries ? limit * 2 : limit)
  }

  return {
    fittingLimit,
    expectedBytes: (tenantId, asked) => {
      const { itemBytes } = known.get(tenantId) ?? {}
      return itemBytes && fittingLimit(tenantId, asked) * itemBytes
    },
    record: (tenantId, { asked, limit, rows, bytes }) => {
      if (rows === 0) return
      const before = known.get(tenantId)
      known.delete(tenantId)
      const hasGrown = limit === asked && limit > (before?.limit ?? Infinity)
      const fitting = limit < asked ? limit : hasGrown ? Infinity : (before?.limit ?? Infinity)
      known.set(tenantId, {
        limit: fitting,
        pages: fitting === before?.limit ? (before.pages % pagesBetweenTries) + 1 : 0,
        // A few short items do not mean that all are short.
        itemBytes: Math.max(bytes / Math.min(limit, rows), (before?.itemBytes ?? 0) * 0.9),
      })
      const [oldest] = known.keys()
      if (known.size > maxRemembered && oldest !== undefined) known.delete(oldest)
    },
  }
}

/** `Link` continues after a shorter page. */
async function readFittingPage<R extends Route, Item>(
  page: ListHandlers<R, Item>['page'],
  input: ContractInput<R>,
  memory: PageMemory,
): Promise<AnswerBody<R> | JsonTexts> {
  const asked: unknown = Reflect.get(Object(input.query), 'limit')
  if (typeof asked !== 'number') return await page(input)
  const { tenantId, share } = input.context
  await share?.acquireRead(() => memory.expectedBytes(tenantId, asked))
  try {
    let limit = memory.fittingLimit(tenantId, asked)
    for (;;) {
      try {
        const body = await page(limit === asked ? input : { ...input, query: { ...Object(input.query), limit } })
        if (share !== undefined) {
          const { rowBytes: bytes, rowCount: rows } = share
          memory.record(tenantId, { asked, limit, rows, bytes })
        }
        return body
      } catch (error) {
        if (!isTooLarge(error) || limit === 1) throw error
        limit = Math.max(1, Math.floor(limit / shrinkFactor))
        share?.releaseRows()
      }
    }
  } finally {
    share?.releaseRead()
  }
}

const firstItems = 16

/** Fewer than `size` items if they are too large. HOT PATH of exports. */
function adaptiveReader<Item>(
  size: number,
  share: RequestContext['share'],
): (load: (count: number) => Promise<readonly Item[]>) => Promise<{
  readonly items: readonly Item[]
  readonly isLast: boolean
}> {
  let count = Math.min(size, firstItems)
  let itemBytes: number | undefined
  let most = size
  async function loadInTurn(load: (count: number) => Promise<readonly Item[]>): Promise<readonly Item[]> {
    await share?.acquireRead(() => itemBytes && count * itemBytes)
    try {
      const items = await load(count)
      if (share !== undefined) itemBytes = share.rowBytes / Math.max(1, items.length)
      return items
    } finally {
      share?.releaseRead()
    }
  }

  return async (load) => {
    for (;;) {
      share?.releaseRows()
      try {
        const items = await loadInTurn(load)
        const isLast = items.length < count
        count = Math.min(most, count * 2)
        return { items, isLast }
      } catch (error) {
        if (!(isTooLarge(error) || error instanceof ShareExceededError) || count === 1) throw error
        if (isTooLarge(error)) most = Math.max(1, Math.floor(count / 2))
        count = Math.max(1, Math.floor(count / shrinkFactor))
      }
    }
  }
}

export async function* allPages<Item, Key>(
  { share }: RequestContext,
  after: Key | undefined,
  size: number,
  load: (after: Key | undefined, size: number) => Promise<readonly Item[]>,
  keyOf: (item: Item) => Key,
): AsyncGenerator<Item> {
  let from = after
  const read = adaptiveReader<Item>(size, share)
  for (;;) {
    const behind = from
    const { items, isLast } = await read(async (count) => await load(behind, count))
    yield* items
    const last = items.at(-1)
    if (last === undefined || isLast) return
    from = keyOf(last)
  }
}

export interface ListSource<Tx> {
  read<T>(tenant: RequestContext, fn: (tx: Tx) => Promise<T>): Promise<T>
  follow<Item>(
    tenant: RequestContext,
    list: (tx: Tx) => Promise<readonly Item[]>,
    size: number,
  ): AsyncIterable<readonly Item[]>
}

/** If less remains of the assertion, the rest is read as one result, which outlives it. */
const minAssertionSeconds = 30

const noLimit = 2_147_483_647

/** Reads pages while the assertion is valid, then the rest as one open result. */
export async function* streamList<Item, Key, Tx>(
  source: ListSource<Tx>,
  context: RequestContext,
  parts: {
    readonly after: Key | undefined
    readonly size: number
    list(tx: Tx, after: Key | undefined, limit: number): Promise<readonly Item[]>
    keyOf(item: Item): Key
  },
): AsyncGenerator<Item> {
  const { size, list, keyOf } = parts
  const until = ((parseAssertion(context.assertion)?.expiresAt ?? 0) - minAssertionSeconds) * 1000
  let { after } = parts
  const read = adaptiveReader<Item>(size, context.share)
  while (Date.now() < until) {
    const from = after
    const { items, isLast } = await read(
      async (count) => await source.read(context, async (tx) => list(tx, from, count)),
    )
    yield* items
    const last = items.at(-1)
    if (last === undefined || isLast) return
    after = keyOf(last)
  }
  const from = after
  for await (const items of source.follow(context, async (tx) => list(tx, from, noLimit), size)) yield* items
}

async function awaitFirst<Item>(items: AsyncIterable<Item>): Promise<AsyncIterable<Item>> {
  const iterator = items[Symbol.asyncIterator]()
  let first: IteratorResult<Item> | undefined = await iterator.next()
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        const result = first ?? (await iterator.next())
        first = undefined
        return result
      },
      return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
    }),
  }
}

export async function* mapRows<Row, Item>(rows: AsyncIterable<Row>, show: (row: Row) => Item): AsyncGenerator<Item> {
  for await (const row of rows) yield show(row)
}

async function* checkItems<Item>(app: App, route: Route, items: AsyncIterable<Item>): AsyncGenerator<Item> {
  for await (const item of items) {
    if (app.checksAnswers === true && item !== heartbeat) assertItemInContract(route, valueOf(item))
    yield item
  }
}

async function closeUnread<Item>(items: AsyncIterable<Item>): Promise<AsyncIterable<Item>> {
  await items[Symbol.asyncIterator]().return?.()
  return Readable.from([])
}

/** Much shorter than the gateway's timeout between bytes. */
const heartbeatMs = 5_000

/** During a long search, sends blanks, which JSON allows around a value. */
export async function* asLines(items: AsyncIterable<unknown>): AsyncGenerator<string> {
  let isFirst = true
  let sentAt = performance.now()
  for await (const item of items) {
    if (item === heartbeat && performance.now() < sentAt + heartbeatMs) continue
    sentAt = performance.now()
    if (item === heartbeat) {
      yield ' '
      continue
    }
    yield isFirst ? textOf(item) : `\n${textOf(item)}`
    isFirst = false
  }
  if (!isFirst) yield '\n'
}

async function* withoutHeartbeats(items: AsyncIterable<unknown>): AsyncGenerator<object> {
  for await (const item of items) if (item !== heartbeat) yield Object(valueOf(item))
}
