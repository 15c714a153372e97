import { Readable } from 'node:stream'
import type { Route } from '@postern/contracts'
import { stringify } from 'csv-stringify'
import { type AnswerBody, type App, type ContractInput, contractRoute } from './contract-route.ts'
import { problem } from './problem.ts'
import { StreamedAnswer } from './streamed-answer.ts'

/** What a list can be answered as, the first one by default. */
const mediaTypes = ['application/json', 'application/x-ndjson', 'text/csv'] as const
type ListMediaType = (typeof mediaTypes)[number]

export interface ListHandlers<R extends Route, Item> {
  /** One page, as JSON. */
  page(input: ContractInput<R>): Promise<AnswerBody<R>>
  /** The whole result from where the cursor points, item by item: read as fast as the client reads, never faster. */
  all(input: ContractInput<R>): AsyncIterable<Item>
  /** Members of an item that become the columns of a CSV, in their order. */
  readonly columns: readonly (keyof Item & string)[]
}

/**
 * Registers a list of the public API: a page as JSON, or the whole result as NDJSON or CSV, as `Accept` says (RFC 9110
 * §12.5.1). What is streamed is cut off, never ended as if it were whole, when reading it fails in the middle.
 */
export function contractList<const R extends Route, Item extends object>(
  app: App,
  route: R,
  { page, all, columns }: ListHandlers<R, Item>,
): void {
  contractRoute(app, route, async (input) => {
    input.answer.header('vary', 'accept')
    const mediaType = negotiate(input.raw.headers.accept)
    if (mediaType === undefined) {
      throw problem('not_acceptable', { detail: `This list can be had as ${mediaTypes.join(', ')}.` })
    }
    if (mediaType === 'application/json') return await page(input)
    const items = await begun(all(input))
    if (mediaType === 'text/csv') {
      const name = route.path.slice(route.path.lastIndexOf('/') + 1)
      input.answer.header('content-disposition', `attachment; filename="${name}.csv"`)
      return new StreamedAnswer('text/csv; charset=utf-8; header=present', asCsv(items, columns))
    }
    return new StreamedAnswer('application/x-ndjson', Readable.from(asLines(items), { objectMode: false }))
  })
}

/** The items of a list that is read page by page: `load` gives those behind a key, at most `size` of them. */
export async function* allPages<Item, Key>(
  after: Key | undefined,
  size: number,
  load: (after: Key | undefined, size: number) => Promise<readonly Item[]>,
  keyOf: (item: Item) => Key,
): AsyncGenerator<Item> {
  let from = after
  for (;;) {
    const items = await load(from, size)
    yield* items
    const last = items.at(-1)
    if (last === undefined || items.length < size) return
    from = keyOf(last)
  }
}

/** The same items, of which the first has been read: what fails at once still becomes a problem document. */
async function begun<Item>(items: AsyncIterable<Item>): Promise<AsyncIterable<Item>> {
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

async function* asLines<Item>(items: AsyncIterable<Item>): AsyncGenerator<string> {
  for await (const item of items) yield `${JSON.stringify(item)}\n`
}

/**
 * RFC 4180. What a spreadsheet would run as a formula is led by an apostrophe. Lists of words stand in one cell with
 * spaces between, objects as JSON.
 */
function asCsv<Item extends object>(items: AsyncIterable<Item>, columns: readonly (keyof Item & string)[]): Readable {
  const source = Readable.from(items)
  const csv = stringify({
    header: true,
    columns: [...columns],
    escape_formulas: true,
    record_delimiter: 'windows',
    cast: {
      boolean: String,
      object: (value: unknown) =>
        Array.isArray(value) && value.every((word) => typeof word === 'string')
          ? value.join(' ')
          : JSON.stringify(value),
    },
  })
  // By hand: pipe() alone leaves the reading end open when the source fails, or the client goes.
  source.on('error', (error) => csv.destroy(error))
  csv.on('close', () => source.destroy())
  return source.pipe(csv)
}

/** The media type that an Accept header prefers of those that a list can be answered as; undefined where none will do. */
export function negotiate(accept: string | undefined): ListMediaType | undefined {
  if (accept === undefined || accept.trim() === '') return 'application/json'
  const ranges = accept.split(',').map(parseRange)
  const ranked = mediaTypes.map((mediaType) => ({ mediaType, quality: qualityOf(mediaType, ranges) }))
  const best = ranked.reduce((a, b) => (b.quality > a.quality ? b : a))
  return best.quality > 0 ? best.mediaType : undefined
}

interface MediaRange {
  readonly range: string
  readonly quality: number
}

function parseRange(text: string): MediaRange {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
  const quality = weight === undefined ? 1 : Number(weight)
  return { range, quality: quality >= 0 && quality <= 1 ? quality : 0 }
}

/** The most specific range that covers a media type decides about it. */
function qualityOf(mediaType: ListMediaType, ranges: readonly MediaRange[]): number {
  for (const wanted of [mediaType, `${mediaType.split('/', 1)[0]}/*`, '*/*']) {
    const found = ranges.find(({ range }) => range === wanted)
    if (found !== undefined) return found.quality
  }
  return 0
}
