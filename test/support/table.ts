type Cell = string | number | undefined

/** Prints rows below a head: the first column from the left, the others from the right. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const lines = [head, ...rows.map((row) => row.map((cell) => (cell === undefined ? '-' : String(cell))))]
  const widths = head.map((_name, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  for (const line of lines) {
    const cells = line.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    )
    process.stdout.write(`  ${cells.join('  ')}\n`)
  }
}
