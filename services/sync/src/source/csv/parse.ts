import { Readable, pipeline } from 'node:stream'
import { CsvError, type Options, type Parser, parse } from 'csv-parse'
import { parse as parseSync } from 'csv-parse/sync'
import { SourceReadError } from '../source-read-error.ts'

const separators = [',', ';', '\t', '|'] as const
type Separator = (typeof separators)[number]

/** A file may contain all of them, if it was joined from several files. */
const lineEnds = ['\r\n', '\n', '\r']

const recordsAtOnce = 256

/** A longer row usually has an unclosed quote. */
const maxRowBytes = 1024 * 1024

interface ParseOptions {
  readonly delimiter: string
  readonly lenientQuotes: boolean
  readonly maxColumns: number
}

export interface Records {
  readonly length: number
  /** Undefined if the parser returned the records. */
  readonly texts: readonly string[] | undefined
  at(index: number): readonly string[]
}

/** Yields records in batches, with the header. An empty line is a record, so record numbers match spreadsheet rows. */
export async function* parseRecords(text: AsyncIterable<string>, options: ParseOptions): AsyncGenerator<Records> {
  if (options.lenientQuotes) {
    yield* parseStream(text, 0, options)
    return
  }
  const chunks = text[Symbol.asyncIterator]()
  let held = ''
  let before = 0
  try {
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
      const all = held + next.value
      const { records, end } = recordsOf(all, before, options)
      before += records.length
      if (records.length > 0) yield records
      held = all.slice(end)
      if (held.length > maxRowBytes) break
    }
    const last = held === '' || held.length > maxRowBytes ? undefined : recordsOf(`${held}\n`, before, options)
    if (last?.end === held.length + 1) yield last.records
    else yield* parseStream(followedBy(held, chunks), before, options)
  } finally {
    await chunks.return?.(undefined)
  }
}

function recordsOf(
  text: string,
  before: number,
  options: ParseOptions,
): { readonly records: Records; readonly end: number } {
  const texts: string[] = []
  const quotedAt: number[] = []
  let end = 0
  for (let block = nextBlock(text, end); block !== undefined; block = nextBlock(text, end)) {
    const lines = text.slice(end, block.end)
    end = block.end
    if (block.isQuoted) {
      quotedAt.push(texts.length)
      texts.push(lines.replace(/(?:\r\n|\n|\r)$/, ''))
    } else {
      cutLines(lines, texts, before, options)
    }
  }
  return { records: cutRecords(texts, quotedAt, before, options), end }
}

function cutRecords(
  texts: readonly string[],
  quotedAt: readonly number[],
  before: number,
  options: ParseOptions,
): Records {
  const { delimiter, maxColumns } = options
  // Starting the parser costs more than one record.
  let parsed: ReadonlyMap<number, readonly string[]> | undefined
  const parseQuoted = (): ReadonlyMap<number, readonly string[]> => {
    const lines = quotedAt.map((at) => `${texts[at] ?? ''}\n`).join('')
    const found = parseLines(lines, (index) => before + (quotedAt[index] ?? 0) + 1, options)
    if (found.length !== quotedAt.length) throw new Error('a parsed record with quotes does not match its line')
    return new Map(quotedAt.map((at, index) => [at, found[index] ?? []]))
  }
  return {
    length: texts.length,
    texts,
    at: (index) => {
      const text = texts[index] ?? ''
      if (text.includes('"')) {
        parsed ??= parseQuoted()
        return parsed.get(index) ?? []
      }
      const cells = text.split(delimiter)
      return cells.length <= maxColumns + 1 ? cells : cells.slice(0, maxColumns + 1)
    },
  }
}

interface Block {
  readonly end: number
  readonly isQuoted: boolean
}

/** Whole lines without quotes, or one record with quotes. */
function nextBlock(text: string, from: number): Block | undefined {
  const quote = text.indexOf('"', from)
  const end = lastLineEnd(text, from, quote === -1 ? text.length : quote)
  if (end !== undefined) return { end, isQuoted: false }
  let lineEnd = quote === -1 ? undefined : nextLineEnd(text, quote)
  for (let at = quote; at !== -1;) {
    const closing = text.indexOf('"', at + 1)
    if (closing === -1) return undefined
    if (lineEnd !== undefined && lineEnd <= closing) lineEnd = nextLineEnd(text, closing + 1)
    if (lineEnd === undefined) return undefined
    at = text.indexOf('"', closing + 1)
    if (at === -1 || lineEnd <= at) return { end: lineEnd, isQuoted: true }
  }
  return undefined
}

function lastLineEnd(text: string, from: number, to: number): number | undefined {
  // A carriage return at the end may be the first half of a line end.
  const isHalf = to === text.length && text.endsWith('\r')
  const lines = text.slice(from, isHalf ? to - 1 : to)
  const end = Math.max(lines.lastIndexOf('\n'), lines.lastIndexOf('\r'))
  return end === -1 ? undefined : from + end + 1
}

const lineEndings = /\r\n|\n|\r(?!$)/g

function nextLineEnd(text: string, from: number): number | undefined {
  lineEndings.lastIndex = from
  return lineEndings.test(text) ? lineEndings.lastIndex : undefined
}

function cutLines(lines: string, texts: string[], before: number, { delimiter, maxColumns }: ParseOptions): void {
  const parts = lines.includes('\r') ? lines.split(/\r\n|\n|\r/) : lines.split('\n')
  parts.pop()
  for (const line of parts) {
    if (line.length * 3 > maxRowBytes && Buffer.byteLength(line) > maxRowBytes) {
      const row = before + texts.length + 1
      throw line.split(delimiter, maxColumns + 1).length > maxColumns
        ? tooManyColumnsError(maxColumns, { row })
        : rowTooLongError({ row })
    }
    texts.push(line)
  }
}

function parseLines(lines: string, rowOf: (index: number) => number, options: ParseOptions): string[][] {
  try {
    return parseSync(lines, parserOptions(options))
  } catch (error) {
    throw error instanceof CsvError ? failureOf(error, rowOf, options) : error
  }
}

async function* parseStream(
  text: AsyncIterable<string>,
  before: number,
  options: ParseOptions,
): AsyncGenerator<Records> {
  const parser = openParser(options)
  pipeline(Readable.from(text, { objectMode: false }), parser, () => undefined)
  let records: string[][] = []
  try {
    for await (const record of parser) {
      records.push(record)
      if (records.length < recordsAtOnce) continue
      yield parsedRecords(records)
      records = []
    }
  } catch (error) {
    if (records.length > 0) yield parsedRecords(records)
    throw error instanceof CsvError ? failureOf(error, (index) => before + index + 1, options) : error
  }
  if (records.length > 0) yield parsedRecords(records)
}

function parsedRecords(records: readonly string[][]): Records {
  return { length: records.length, texts: undefined, at: (index) => records[index] ?? [] }
}

async function* followedBy(first: string, rest: AsyncIterator<string>): AsyncGenerator<string> {
  if (first !== '') yield first
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
}

/** Excel does not count this line as a row. */
const separatorLine = /^"?sep=([,;\t|])"?(?:\r\n|\n|\r)/i

export function readSeparatorLine(sample: string): {
  readonly declared: Separator | undefined
  readonly length: number
} {
  const [line = '', named] = separatorLine.exec(sample) ?? []
  return { declared: separators.find((separator) => separator === named), length: line.length }
}

/** Lines without values before the first row, for any separator. */
const blankLines = /^(?:[,;\t|]*[\r\n])+/

export async function findSeparator(sample: string): Promise<Separator> {
  let best: { readonly separator: Separator; readonly cells: number } = { separator: ',', cells: 1 }
  const rows = sample.replace(blankLines, '')
  for (const separator of separators) {
    const cells = await countCells(rows, separator)
    if (cells > best.cells) best = { separator, cells }
  }
  return best.separator
}

async function countCells(sample: string, delimiter: string): Promise<number> {
  const parser = parse({ ...parserOptions({ delimiter, lenientQuotes: true, maxColumns: 10_000 }), to: 1 })
  pipeline(Readable.from([sample], { objectMode: false }), parser, () => undefined)
  try {
    for await (const record of parser) return record.length
  } catch {
    // The actual read reports the error.
  }
  return 0
}

function openParser(options: ParseOptions): Parser {
  return parse(parserOptions(options))
}

function parserOptions({ delimiter, lenientQuotes, maxColumns }: ParseOptions): Options {
  return {
    delimiter,
    record_delimiter: lineEnds,
    relax_quotes: lenientQuotes,
    relax_column_count: true,
    max_record_size: maxRowBytes,
    // The first cell beyond the limit takes the rest of its row.
    ignore_last_delimiters: maxColumns + 1,
  }
}

function rowTooLongError(at: {
  readonly row: number
  readonly field?: string
  readonly cause?: unknown
}): SourceReadError {
  return new SourceReadError(
    'row_too_long',
    `the row has more than ${maxRowBytes} bytes: close the quote in it that is open, or split its value`,
    at,
  )
}

function tooManyColumnsError(
  maxColumns: number,
  at: { readonly row: number; readonly cause?: unknown },
): SourceReadError {
  const message = `a row has more than ${maxColumns} columns: set the \`delimiter\` that the file has`
  return new SourceReadError('too_many_columns', message, at)
}

function failureOf(error: CsvError, rowOf: (index: number) => number, { maxColumns }: ParseOptions): SourceReadError {
  // The parser's error overtakes records that are not read yet.
  const row = rowOf(typeof error['records'] === 'number' ? error['records'] : 0)
  const place = typeof error['index'] === 'number' ? error['index'] : undefined
  const at = { row, cause: error, ...(place === undefined ? {} : { field: `column ${place + 1}` }) }
  if (place !== undefined && place >= maxColumns) return tooManyColumnsError(maxColumns, { row, cause: error })
  switch (error.code) {
    case 'CSV_MAX_RECORD_SIZE':
      return rowTooLongError(at)
    case 'CSV_QUOTE_NOT_CLOSED':
      return new SourceReadError('quote_open', 'a quote is opened and never closed: close it, or double it', at)
    default:
      return new SourceReadError(
        'quote_misplaced',
        'a quote is inside a value: quote the whole value and double the quotes in it, or set `lenient_quotes`',
        at,
      )
  }
}
