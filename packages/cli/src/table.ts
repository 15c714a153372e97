import { printable } from './printable.ts'

/** Lays out rows under their headings, two spaces apart. Characters that would steer a terminal become `?`. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((cells) => cells.map(printable))
  const widths = headings.map((_heading, column) => Math.max(...lines.map((cells) => lengthOf(cells[column] ?? ''))))
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => padded(cell, widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Lays out names and values below each other. */
export function sheet(entries: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...entries.map(([name]) => name.length))
  return entries.map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}`).join('\n')
}

/** A moment to the second, in UTC: people compare them with each other and with logs. */
export function moment(timestamp: string | null): string {
  return timestamp === null ? '-' : `${timestamp.slice(0, 19).replace('T', ' ')}Z`
}

function padded(cell: string, width: number): string {
  return cell + ' '.repeat(Math.max(0, width - lengthOf(cell)))
}

/** In code points: near enough to columns for everything but wide scripts. */
function lengthOf(text: string): number {
  return Array.from(text).length
}
