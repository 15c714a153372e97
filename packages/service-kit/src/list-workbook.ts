import { Readable } from 'node:stream'
import { type TableColumn, cellOf, csvText } from '@postern/contracts'
import { type XlsxStreamRow, writeXlsxStream } from 'hucre/xlsx'

type CellValue = string | number | boolean | Date | null

/** The most characters of a cell in Excel. */
const maxCharacters = 32_767
const maxSheetName = 31

/** Writes a workbook with one sheet (ECMA-376) as fast as it is read. Text is never a formula. Times are in UTC. */
export function asWorkbook(items: AsyncIterable<object>, name: string, columns: readonly TableColumn[]): Readable {
  const rows = rowsOf(items, columns)
  const stream = writeXlsxStream(rows, {
    name: name.slice(0, maxSheetName),
    columns: columns.map(({ name: header, kind }) =>
      kind === undefined ? { header } : { header, numFmt: kind === 'date' ? 'yyyy-mm-dd' : 'yyyy-mm-dd hh:mm:ss' },
    ),
    freezePane: { rows: 1 },
  })
  return Readable.from(stream, { objectMode: false })
}

async function* rowsOf(items: AsyncIterable<object>, columns: readonly TableColumn[]): AsyncGenerator<XlsxStreamRow> {
  for await (const item of items) {
    yield columns.map((column) => workbookCell(cellOf(item, column), column.kind !== undefined))
  }
}

function workbookCell(value: unknown, isDate: boolean): CellValue {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return value
  const text = csvText(value)
  const date = isDate ? dateOf(text) : undefined
  return date ?? textCell(text)
}

/** Undefined if Excel's calendar has no such day. */
function dateOf(text: string): Date | undefined {
  const date = new Date(text)
  return text < '1900-03-01' || Number.isNaN(date.getTime()) ? undefined : date
}

/** Readers turn `_x0041_` into a character, and XML has no U+FFFE and U+FFFF. */
function textCell(text: string): string {
  const plain = text.replaceAll(/_(?=x[0-9A-Fa-f]{4}_)/g, '_x005F_').replaceAll(/[\uFFFE\uFFFF]/g, '\uFFFD')
  return plain.length <= maxCharacters ? plain : `${plain.slice(0, maxCharacters - 1).toWellFormed()}…`
}
