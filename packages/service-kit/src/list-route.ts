import { Readable } from 'node:stream'
import { type Route, maxExpanded, pageMediaType, tableColumnsOf, workbookMediaType } from '@postern/contracts'
import { type AnswerBody, type ContractInput, registerContract } from './contract-route.ts'
import type { App } from './register-route.ts'
import { assertItemInContract } from './check-answers.ts'
import { createPageMemory, readFittingPage } from './fitting-page.ts'
import { asCsv, csvStyleOf } from './list-csv.ts'
import { asWorkbook } from './list-workbook.ts'
import { type JsonText, type JsonTexts, textOf, valueOf } from './json-text.ts'
import { problem } from './problem.ts'
import { requestedExpansions, requestedFields, selectFields } from './select-fields.ts'
import { StreamedAnswer } from './streamed-answer.ts'

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
