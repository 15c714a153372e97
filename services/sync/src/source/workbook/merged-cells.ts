import { brokenWorkbookError } from './read-xml.ts'
import { columnNumber } from './sheet-rows.ts'
import type { Cell } from './cell-text.ts'

interface Merge {
  readonly column: number
  readonly lastRow: number
}

/** By first row. */
export type MergedCells = ReadonlyMap<number, readonly Merge[]>

const maxMerges = 100_000
const pattern = /<(?:[\w.-]+:)?mergeCell\s[^<>]*?ref="([A-Z]{1,3})(\d{1,7}):[A-Z]{1,3}(\d{1,7})"/g
/** Longer than any match. */
const heldCharacters = 256

/** Finds merged ranges of several rows before the rows are read, because the sheet lists them after the rows. */
export async function readMergedCells(part: AsyncIterable<Uint8Array>): Promise<MergedCells> {
  const merges = new Map<number, Merge[]>()
  let count = 0
  let held = ''
  for await (const chunk of part) {
    const text = held + Buffer.from(chunk).toString('latin1')
    let end = 0
    for (const { 0: all, 1: column = '', 2: first, 3: last, index } of text.matchAll(pattern)) {
      end = index + all.length
      if (first === last) continue
      count += 1
      if (count > maxMerges) throw brokenWorkbookError(new Error('the sheet has too many merged cells'))
      const inRow = merges.get(Number(first)) ?? []
      inRow.push({ column: columnNumber(column), lastRow: Number(last) })
      merges.set(Number(first), inRow)
    }
    held = text.slice(Math.max(end, text.length - heldCharacters))
  }
  return merges
}

/** Returns a function that gives the first cell of a range to the rows below it. Call it for each row in order. */
export function createFiller(merges: MergedCells): (row: number, cells: Cell[]) => void {
  const open = new Map<number, { readonly value: Cell; readonly lastRow: number }>()
  return (row, cells) => {
    for (const [column, { value, lastRow }] of open) {
      if (row > lastRow) open.delete(column)
      else if ((cells[column] ?? '') === '') cells[column] = value
    }
    for (const { column, lastRow } of merges.get(row) ?? []) {
      open.set(column, { value: cells[column] ?? '', lastRow })
    }
  }
}
