import { csvConfigSchema, workbookMediaType } from '@postern/contracts'
import { maxSourceRow } from '@postern/contracts/internal'
import type { z } from 'zod'
import { createByteBudget, readBytes } from '../../outbound/byte-stream.ts'
import { SourceReadError } from '../source-read-error.ts'
import { requestOk } from '../http/request.ts'
import { credentialHeaders, staticSecretNames } from '../http/authorize.ts'
import { caSchema } from '../http/fields.ts'
import {
  type SourceContext,
  type SourceItem,
  type SourceLimits,
  type SourceTexts,
  type SourceType,
  defineSourceType,
} from '../types.ts'
import { decodeText } from './decode.ts'
import { findTextFormat } from './other-formats.ts'
import { type Column, readHeader } from './header.ts'
import { normalizePieces } from './normalize-pieces.ts'
import { toTableRow } from './table-row.ts'
import { isZip } from '../workbook/open-workbook.ts'
import { readWorkbook } from '../workbook/workbook.ts'
import { type Records, findSeparator, parseRecords, readSeparatorLine } from './parse.ts'

const configSchema = csvConfigSchema.safeExtend({ ca: caSchema.optional() })
type CsvConfig = z.output<typeof configSchema>

/** A text table (RFC 4180 and the variants of spreadsheets) or a workbook (`.xlsx`), uploaded or fetched from a URL. */
export const csv: SourceType = defineSourceType({
  type: 'csv',
  configSchema,
  secretNames: staticSecretNames,
  columnsOf: ({ columns }) => columns,
  read: readTable,
})

async function* readTable(context: SourceContext<CsvConfig>): AsyncGenerator<SourceItem | SourceTexts> {
  const { config, limits } = context
  let mediaType: string | undefined
  const opened = openTable(context, (type) => {
    mediaType = type
  })
  const { start, bytes } = await peekBytes(opened)
  if (isZip(start)) yield* readWorkbook(bytes, config, limits)
  else yield* readText(bytes, () => mediaType, config, limits)
}

async function* readText(
  table: AsyncGenerator<Uint8Array>,
  mediaType: () => string | undefined,
  config: CsvConfig,
  limits: SourceLimits,
): AsyncGenerator<SourceItem | SourceTexts> {
  const { sample, rest } = await peek(normalizePieces(decodeText(table, config.encoding, mediaType)))
  refuseOtherFormats(sample)
  const { declared, length } = readSeparatorLine(sample)
  const text = followedBy(sample.slice(length), rest)
  const delimiter = config.delimiter ?? declared ?? (await findSeparator(sample.slice(0, sampleCharacters)))
  const options = { delimiter, lenientQuotes: config.lenient_quotes, maxColumns: limits.maxColumns }
  let layout: TableLayout | undefined
  const maxLines = Math.min(limits.maxRows * linesARow, maxSourceRow)
  let before = 0
  for await (const records of parseRecords(text, options)) {
    // Empty lines cost as much to compare as rows.
    if (before + records.length > maxLines) {
      throw new SourceReadError('too_many_lines', `the file has more than ${maxLines} lines: remove the empty ones`)
    }
    let index = 0
    for (; layout === undefined && index < records.length; index += 1) {
      const record = records.at(index)
      if (isEmpty(record)) continue
      const columns = readHeader(record, config.columns, limits.maxColumns)
      layout = {
        columns,
        width: record.length,
        shortRows: config.short_rows,
        maxLength: limits.maxValueLength,
        delimiter,
      }
      if (records.texts === undefined) yield textsOf(records, [], { from: index + 1, before, layout })
    }
    if (layout !== undefined) {
      if (records.texts === undefined) yield* itemsOf(records, { from: index, before, layout })
      else yield textsOf(records, records.texts, { from: index, before, layout })
    }
    before += records.length
  }
  if (layout === undefined) throw new SourceReadError('source_empty', 'the file is empty: it needs at least a header')
}

/** More than one, because of the header and empty lines. */
const linesARow = 2

interface RecordPosition {
  readonly from: number
  readonly before: number
  readonly layout: TableLayout
}

function* itemsOf(records: Records, { from, before, layout }: RecordPosition): Generator<SourceItem> {
  for (let index = from; index < records.length; index += 1) {
    const record = records.at(index)
    if (!isEmpty(record)) yield toItem(record, before + index + 1, layout)
  }
}

function textsOf(records: Records, texts: readonly string[], { from, before, layout }: RecordPosition): SourceTexts {
  const { columns, width, shortRows, maxLength, delimiter } = layout
  const own = from === 0 ? texts : texts.slice(from)
  const isBlank = (text: string, index: number): boolean =>
    mayBeBlank(text, delimiter) && isEmpty(records.at(from + index))
  return {
    kind: 'texts',
    columns: columns.map(({ name }) => name),
    isWhole: columns.length === width,
    form: JSON.stringify([delimiter, columns, width, shortRows, maxLength]),
    texts: own,
    rows: own.length - own.filter(isBlank).length,
    at: (index) => {
      const record = records.at(from + index)
      return isEmpty(record) ? undefined : toItem(record, before + from + index + 1, layout)
    },
  }
}

function mayBeBlank(text: string, delimiter: string): boolean {
  for (const character of text) {
    if (character !== delimiter && character !== '"') return false
  }
  return true
}

async function* openTable(
  context: SourceContext<CsvConfig>,
  onType: (mediaType: string | undefined) => void,
): AsyncGenerator<Uint8Array> {
  const { config, secrets, upload, outbound, limits, signal } = context
  const { url, auth, ca } = config
  const { maxBytes, maxSilenceMs } = limits
  if (url === undefined) {
    if (upload === undefined) throw new SourceReadError('upload_missing', 'the run has no file: upload one')
    yield* readBytes(upload, { budget: createByteBudget(maxBytes), maxSilenceMs, signal })
    return
  }
  const headers = {
    accept: `text/csv, text/plain;q=0.9, ${workbookMediaType};q=0.8, */*;q=0.1`,
    ...credentialHeaders(auth, secrets),
  }
  const http = outbound.http({ ca, maxBytes, maxSilenceMs })
  try {
    const answer = await requestOk(http, { url, headers, signal })
    onType(answer.headers['content-type'])
    yield* answer.body
  } finally {
    await http.close()
  }
}

interface TableLayout {
  readonly columns: readonly Column[]
  readonly width: number
  readonly shortRows: boolean
  readonly maxLength: number
  readonly delimiter: string
}

function toItem(
  record: readonly string[],
  row: number,
  { columns, width, shortRows, maxLength }: TableLayout,
): SourceItem {
  const fits = record.length === width || (shortRows && record.length < width)
  if (!fits) {
    const message = `the row has ${record.length} cells and the header ${width}: a separator or a quote is missing, or one too many`
    return { kind: 'error', row, code: 'cell_count', message }
  }
  return toTableRow(row, columns, (place) => record[place] ?? '', maxLength)
}

/** Spreadsheets leave such lines below a table. */
function isEmpty(record: readonly string[]): boolean {
  return record.every((cell) => cell === '')
}

/** Enough to recognize a workbook. */
const startBytes = 4

async function peekBytes(
  chunks: AsyncGenerator<Uint8Array>,
): Promise<{ readonly start: Uint8Array; readonly bytes: AsyncGenerator<Uint8Array> }> {
  let start = Buffer.alloc(0)
  while (start.length < startBytes) {
    const next = await chunks.next()
    if (next.done === true) break
    start = Buffer.concat([start, next.value])
  }
  return { start, bytes: followedBy<Uint8Array>(start, chunks) }
}

const sampleCharacters = 65_536

async function peek(
  chunks: AsyncGenerator<string>,
): Promise<{ readonly sample: string; readonly rest: AsyncGenerator<string> }> {
  let sample = ''
  while (sample.length < sampleCharacters) {
    const next = await chunks.next()
    if (next.done === true) break
    sample += next.value
  }
  return { sample, rest: chunks }
}

async function* followedBy<Part>(first: Part, rest: AsyncGenerator<Part>): AsyncGenerator<Part> {
  try {
    yield first
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}

function refuseOtherFormats(sample: string): void {
  const format = findTextFormat(sample)
  if (format !== undefined) throw new SourceReadError('not_a_table', `the file is ${format}`)
}
