import { SourceReadError } from '../source-read-error.ts'
import { undecodable } from '../marking-decoder.ts'
import { toExcerpt } from '../types.ts'

export interface Column {
  readonly name: string
  readonly place: number
}

/** Leaves out columns without a name. Throws a SourceReadError for a repeated or missing column. */
export function readHeader(
  cells: readonly string[],
  wanted: readonly string[] | undefined,
  maxColumns: number,
  row = 1,
): readonly Column[] {
  if (cells.length > maxColumns) {
    throw new SourceReadError(
      'too_many_columns',
      `the header has more than ${maxColumns} columns: export fewer, or set the \`delimiter\` that the file has`,
      { row },
    )
  }
  const columns = cells
    .map((cell, place) => ({ name: cell.trim().replaceAll(undecodable, '\uFFFD'), place }))
    .filter(({ name }) => name !== '')
  if (columns.length === 0) {
    throw new SourceReadError('column_unnamed', 'the row names no column: begin with a row of column names', { row })
  }
  const seen = new Map<string, number>()
  for (const { name, place } of columns) {
    const earlier = seen.get(name)
    if (earlier !== undefined && (wanted === undefined || wanted.includes(name))) {
      throw new SourceReadError(
        'column_repeated',
        `columns ${earlier + 1} and ${place + 1} are both named ${toExcerpt(name)}: give them different names, or list the \`columns\` to read`,
        { row, field: toExcerpt(name) },
      )
    }
    seen.set(name, place)
  }
  if (wanted === undefined) return columns
  const missing = wanted.filter((name) => !seen.has(name))
  const [first] = missing
  if (first !== undefined) {
    const found = toExcerpt(columns.map(({ name }) => name).join(', '))
    const hint = findNearest(first, [...seen.keys()])
    const names = missing.map(toExcerpt).join(', ')
    throw new SourceReadError(
      'column_missing',
      `the header lacks ${names}${hint === undefined ? '' : ` (it has ${toExcerpt(hint)})`}. Its columns are ${found}. ` +
        'Name the columns as before, or change the connector',
      { row, field: toExcerpt(first) },
    )
  }
  return wanted.map((name) => ({ name, place: seen.get(name) ?? 0 }))
}

function findNearest(name: string, found: readonly string[]): string | undefined {
  return found.find((each) => toPlainName(each) === toPlainName(name))
}

function toPlainName(text: string): string {
  return text.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')
}
