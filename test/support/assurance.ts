/** A promise of ASSURANCE.md. */
export interface Promised {
  readonly promise: string
  readonly keeper: string
  readonly shown: string
  readonly figure: string
}

const isRow = (line: string): boolean =>
  line.startsWith('| ') && !line.startsWith('| ---') && !line.startsWith('| promise ')

function parseRow(line: string): Promised {
  const cells = line.split('|').map((cell) => cell.trim())
  const [, promise = '', keeper = '', shown = '', figure = ''] = cells
  return { promise, keeper, shown, figure }
}

/** The rows of all tables in the text of ASSURANCE.md. */
export function readPromises(text: string): Promised[] {
  return text.split('\n').filter(isRow).map(parseRow)
}
