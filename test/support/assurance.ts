import { z } from 'zod'

/** How many tests of each file passed in one whole run of `npm test`. */
export const passedCasesSchema = z.strictObject({
  /** The day of the run, in UTC. */
  date: z.iso.date(),
  /** What was tested. */
  commit: z.string().regex(/^[0-9a-f]{7,40}$/),
  /** By the path of the file from the root of the repository. */
  files: z.record(z.string(), z.int().positive()),
})
export type PassedCases = z.infer<typeof passedCasesSchema>

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

/** What a figure says of the tests that a row names; undefined where none of them is in the record. */
export function casesOf({ shown }: Promised, { date, files }: PassedCases): string | undefined {
  const named = new Set([...shown.matchAll(/`([\w./-]+\.test\.tsx?)`/g)].map(([, path = '']) => path))
  const passed = [...named].reduce((sum, path) => sum + (files[path] ?? 0), 0)
  return passed === 0 ? undefined : `${passed.toLocaleString('en')} ${passed === 1 ? 'case' : 'cases'} on ${date}`
}

/** The text of ASSURANCE.md with the number of passed cases at the head of each figure. */
export function withCases(text: string, passed: PassedCases): string {
  const change = (line: string): string => {
    const row = parseRow(line)
    const cases = casesOf(row, passed)
    if (cases === undefined) return line
    const rest = row.figure.replace(/^[\d,]+ cases? on [\d-]+(?:; )?/, '')
    return `| ${row.promise} | ${row.keeper} | ${row.shown} | ${[cases, rest].filter((part) => part !== '').join('; ')} |`
  }
  return text
    .split('\n')
    .map((line) => (isRow(line) ? change(line) : line))
    .join('\n')
}
