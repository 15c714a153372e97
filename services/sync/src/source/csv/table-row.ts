import { type ColumnFault, type SourceItem, toRowOrError } from '../types.ts'
import { type CellFault, findCellFault } from './cell.ts'
import type { Column } from './header.ts'

export function toTableRow(
  row: number,
  columns: readonly Column[],
  cellAt: (place: number) => string | CellFault,
  maxLength: number,
): SourceItem {
  const values: Record<string, string> = {}
  const faults: ColumnFault[] = []
  for (const { name, place } of columns) {
    const cell = cellAt(place)
    const found = typeof cell === 'string' ? findCellFault(cell, maxLength) : cell
    if (found !== undefined) faults.push({ column: name, ...found })
    else if (typeof cell !== 'string') continue
    else if (name === '__proto__') Object.defineProperty(values, name, { value: cell, enumerable: true })
    else values[name] = cell
  }
  return toRowOrError(row, values, faults)
}
