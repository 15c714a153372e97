import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Promised } from './promises.ts'

const head = `# Assurance

What Postern promises, and which test shows it. This file is generated from the \`@promise\` annotations of the tests: change them, then run
\`npm run docs\`. \`npm test -- <path>\` runs one test. After a run of the tests, \`npm run docs\` also writes this table with their results
to \`.results/assurance.md\`.
`

const limits = join(import.meta.dirname, 'limits.md')

/** `resultOf` adds a column with the last result of a test or command. */
export function renderAssurance(promises: readonly Promised[], resultOf?: (shownBy: string) => string): string {
  const tables = [...Map.groupBy(promises, ({ section }) => section)].map(
    ([section, rows]) =>
      `## ${section}\n\n| promise | shown by |${resultOf === undefined ? '' : ' last result |'}\n` +
      `| --- | --- |${resultOf === undefined ? '' : ' --- |'}\n${rows.map((row) => renderRow(row, resultOf)).join('\n')}\n`,
  )
  return [head, ...tables, readFileSync(limits, 'utf8')].join('\n')
}

function renderRow({ text, shownBy }: Promised, resultOf?: (shownBy: string) => string): string {
  const result = resultOf === undefined ? '' : ` ${shownBy.map(resultOf).join(', ')} |`
  return `| ${text} | ${shownBy.map((name) => `\`${name}\``).join(', ')} |${result}`
}
