import { Readable, pipeline } from 'node:stream'
import { CsvError, type Parser, parse } from 'csv-parse'
import { SourceFailure } from '../failure.ts'

/** Separators that are told apart where the connector names none. A comma where none of them is there. */
const separators = [',', ';', '\t', '|'] as const
type Separator = (typeof separators)[number]

/** Line ends in any mixture: files are joined from others. */
const lineEnds = ['\r\n', '\n', '\r']

/** Bytes of one row; beyond it a quote has not been closed. */
const maxRowBytes = 1024 * 1024

interface ParseOptions {
  readonly delimiter: string
  readonly lenientQuotes: boolean
  readonly maxColumns: number
}

/**
 * The records of a table, the header among them, as they are read. A line without any value is a record of one empty cell, so
 * that counting records counts the rows of a spreadsheet. Throws a SourceFailure when what follows cannot be told into rows.
 */
export async function* parseRecords(text: AsyncIterable<string>, options: ParseOptions): AsyncGenerator<string[]> {
  const parser = openParser(options)
  // The error reaches the loop below through the parser, which the pipeline destroys with it.
  pipeline(Readable.from(text, { objectMode: false }), parser, () => undefined)
  try {
    for await (const record of parser) yield record
  } catch (error) {
    throw error instanceof CsvError ? failureOf(error, options) : error
  }
}

/** The separator that cuts the first row of a text into the most cells. */
export async function findSeparator(sample: string): Promise<Separator> {
  let best: { readonly separator: Separator; readonly cells: number } = { separator: ',', cells: 1 }
  for (const separator of separators) {
    const cells = await countCells(sample, separator)
    if (cells > best.cells) best = { separator, cells }
  }
  return best.separator
}

async function countCells(sample: string, delimiter: string): Promise<number> {
  const parser = openParser({ delimiter, lenientQuotes: true, maxColumns: 10_000 })
  pipeline(Readable.from([sample], { objectMode: false }), parser, () => undefined)
  try {
    for await (const record of parser) return record.length
  } catch {
    // The reading itself will say what is wrong.
  }
  return 0
}

function openParser({ delimiter, lenientQuotes, maxColumns }: ParseOptions): Parser {
  return parse({
    delimiter,
    record_delimiter: lineEnds,
    relax_quotes: lenientQuotes,
    relax_column_count: true,
    max_record_size: maxRowBytes,
    // One cell more than there may be takes the rest of its row, however many separators stand there.
    ignore_last_delimiters: maxColumns + 1,
  })
}

function failureOf(error: CsvError, { maxColumns }: ParseOptions): SourceFailure {
  // Counted where it is parsed: an error overtakes the records before it that nobody has asked for yet.
  const row = typeof error['records'] === 'number' ? error['records'] + 1 : 1
  const place = typeof error['index'] === 'number' ? error['index'] : undefined
  const at = { row, cause: error, ...(place === undefined ? {} : { field: `column ${place + 1}` }) }
  if (place !== undefined && place >= maxColumns) {
    const message = `a row has more than ${maxColumns} columns: set the \`delimiter\` that the file has`
    return new SourceFailure('too_many_columns', message, { row, cause: error })
  }
  switch (error.code) {
    case 'CSV_MAX_RECORD_SIZE':
      return new SourceFailure(
        'row_too_long',
        `the row has more than ${maxRowBytes} bytes: close the quote in it that is open, or split its value`,
        at,
      )
    case 'CSV_QUOTE_NOT_CLOSED':
      return new SourceFailure('quote_open', 'a quote is opened and never closed: close it, or double it', at)
    default:
      return new SourceFailure(
        'quote_misplaced',
        'a quote stands inside a value: quote the whole value and double the quotes in it, or set `lenient_quotes`',
        at,
      )
  }
}
