import { printable } from './printable.ts'

/** Formats rows under their headings; control characters become `?`. */
export function formatTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((cells) => cells.map(printable))
  const widths = headings.map((_heading, column) => longestOf(lines.map((cells) => cells[column] ?? '')))
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => padCell(cell, widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function formatSheet(entries: readonly (readonly [name: string, value: string])[]): string {
  const lines = entries.map(([name, value]) => [printable(name), printable(value)] as const)
  const width = longestOf(lines.map(([name]) => name))
  return lines.map(([name, value]) => `${padCell(name, width)}  ${value}`).join('\n')
}

export function moment(timestamp: string | null): string {
  return timestamp === null ? '-' : `${timestamp.slice(0, 19).replace('T', ' ')}Z`
}

/** A spread would overflow the stack. */
function longestOf(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, lengthOf(text)), 0)
}

function padCell(cell: string, width: number): string {
  return cell + ' '.repeat(Math.max(0, width - lengthOf(cell)))
}

/** Code points equal columns except in wide scripts. */
function lengthOf(text: string): number {
  return Array.from(text).length
}
