import { SourceReadError } from '../source-read-error.ts'
import { type Cell, cellText } from './cell-text.ts'
import { brokenWorkbookError, parseXml } from './read-xml.ts'
import { createTextReader } from './shared-strings.ts'
import type { NumberKind } from './styles.ts'

export interface SheetRow {
  /** From 1, as the spreadsheet shows it. */
  readonly row: number
  /** By column from 0, with gaps. */
  readonly cells: Cell[]
}

interface Parts {
  readonly strings: readonly string[]
  readonly styles: readonly NumberKind[]
  readonly is1904: boolean
}

const maxRowCharacters = 1024 * 1024
const maxColumns = 16_384
const maxRow = 1_048_576

/** Yields the rows with values, in order, as many at once as a chunk of the part has. */
export async function* readSheetRows(
  part: AsyncIterable<Uint8Array>,
  { strings, styles, is1904 }: Parts,
): AsyncGenerator<readonly SheetRow[]> {
  let rows: SheetRow[] = []
  let row = 0
  let cells: Cell[] = []
  let characters = 0
  let column = -1
  let isInValue = false
  let cell = { type: '', kind: 'number' satisfies NumberKind as NumberKind, value: '', isFormula: false }
  let isInCell = false
  const inline = createTextReader()
  const count = (length: number): void => {
    characters += length
    if (characters > maxRowCharacters) throw rowTooLongError(row)
  }
  const startRow = (given: string | undefined): void => {
    const next = given === undefined ? row + 1 : Number(given)
    if (!Number.isInteger(next) || next <= row || next > maxRow) {
      throw brokenWorkbookError(new Error('a row has no number, or one that is out of order or too large'))
    }
    row = next
    cells = []
    characters = 0
    column = -1
  }
  const startCell = ({ r: place, t: type = '', s: style }: Readonly<Record<string, string>>): void => {
    column = place === undefined ? column + 1 : columnNumber(/^[A-Z]{1,3}/.exec(place)?.[0] ?? '')
    if (column < 0 || column >= maxColumns) throw brokenWorkbookError(new Error('a cell has no column'))
    cell = { type, kind: styles[Number(style ?? 0)] ?? 'number', value: '', isFormula: false }
    isInCell = true
    inline.reset()
  }
  const endCell = (): void => {
    isInCell = false
    const value = cellText({ ...cell, inline: inline.value() }, strings, is1904)
    if (value === '') return
    if (cell.type === 's' && typeof value === 'string') count(value.length)
    cells[column] = value
  }
  const chunks = parseXml(part, {
    open: (name, attributes) => {
      if (name === 'row') startRow(attributes['r'])
      else if (name === 'c') startCell(attributes)
      else if (!isInCell) return
      else if (name === 'v') isInValue = true
      else if (name === 'f') cell.isFormula = true
      else inline.open(name)
    },
    text: (text) => {
      if (!isInCell) return
      count(text.length)
      if (isInValue) cell.value += text
      else inline.text(text)
    },
    close: (name) => {
      if (name === 'v') isInValue = false
      else if (name === 'c') endCell()
      else if (name === 'row' && cells.length > 0) rows.push({ row, cells })
      else inline.close(name)
    },
  })
  try {
    for (let isDone = false; !isDone;) {
      isDone = (await chunks.next()).done === true
      if (rows.length === 0) continue
      yield rows
      rows = []
    }
  } finally {
    await chunks.return(undefined)
  }
}

/** From 0: `A` is 0, `AB` is 27; -1 without letters. */
export function columnNumber(letters: string): number {
  let number = 0
  for (const letter of letters) number = number * 26 + letter.charCodeAt(0) - 64
  return number - 1
}

function rowTooLongError(row: number): SourceReadError {
  const message = `the row has more than ${maxRowCharacters} characters: split its values`
  return new SourceReadError('row_too_long', message, { row })
}
