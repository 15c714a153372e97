import { Readable } from 'node:stream'
import { type TableColumn, cellOf, csvText } from '@postern/contracts'
import { stringify } from 'csv-stringify'

export interface CsvStyle {
  /** Excel needs it to read UTF-8. */
  readonly hasByteOrderMark: boolean
  readonly separator: string
  /** An apostrophe precedes text that a spreadsheet would run as a formula. */
  readonly escapesFormulas: boolean
}

const separators: ReadonlyMap<unknown, string> = new Map([
  ['semicolon', ';'],
  ['tab', '\t'],
])

/** Reads the parameters `csv`, `separator` and `formulas`. */
export function csvStyleOf(query: object): CsvStyle {
  const isForExcel = Reflect.get(query, 'csv') === 'excel'
  const formulas: unknown = Reflect.get(query, 'formulas') ?? (isForExcel ? 'keep' : 'escape')
  return {
    hasByteOrderMark: isForExcel,
    separator: separators.get(Reflect.get(query, 'separator')) ?? ',',
    escapesFormulas: formulas === 'escape',
  }
}

/** Writes CSV (RFC 4180) as fast as it is read. */
export function asCsv(items: AsyncIterable<object>, columns: readonly TableColumn[], style: CsvStyle): Readable {
  const { hasByteOrderMark, separator, escapesFormulas } = style
  const source = Readable.from(rowsOf(items, columns))
  const csv = stringify({
    delimiter: separator,
    escape_formulas: escapesFormulas,
    record_delimiter: 'windows',
    // Many readers end a row at a lone CR or LF.
    quoted_match: /[\r\n]/,
    cast: { boolean: csvText, object: csvText, string: escapesFormulas ? escapeLineFeed : (text) => text },
  })
  // Sent first, so that the answer begins before a slow search ends.
  const header = columns.map(({ name }) => name).join(separator)
  csv.push(`${hasByteOrderMark ? '\ufeff' : ''}${header}\r\n`)
  // pipe() would leave the reader open after a failure.
  source.on('error', (error) => csv.destroy(error))
  csv.on('close', () => source.destroy())
  return source.pipe(csv)
}

async function* rowsOf(items: AsyncIterable<object>, columns: readonly TableColumn[]): AsyncGenerator<unknown[]> {
  for await (const item of items) yield columns.map((column) => cellOf(item, column))
}

/** A line feed hides a formula from the library, but not from every reader. */
function escapeLineFeed(text: string): string {
  return text.startsWith('\n') ? `'${text}` : text
}
