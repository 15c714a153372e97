import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { type Message, listDetails, listFieldErrors, listTexts } from './source-messages.ts'

const root = join(import.meta.dirname, '..', '..')

const rulesSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string().optional(),
          annotations: z.record(z.string(), z.string()).optional(),
        }),
      ),
    }),
  ),
})

export function renderMessages(): string {
  const sections: readonly (readonly [string, readonly Message[]])[] = [
    ['Problem details', listDetails()],
    ['Field errors', listFieldErrors()],
    ['Command line', listTexts('{packages/cli,packages/installation}/src/**/*.ts')],
    ['Console', listTexts('services/console/{web/src/**/*.{ts,tsx},src/pages/*.ts}')],
    ['Alerts', listAlerts()],
  ]
  const known = new Set<string>()
  return `# Messages

The texts that people read, each once, by the first source file that has it. \`{…}\` is a value. Titles are in [problems](problems.md), log
events in [log events](log-events.md). This file is generated from the code: \`npm run docs\`.

${sections.map(([title, messages]) => `## ${title}\n\n${renderByFile(messages, known)}`).join('\n')}`
}

/** Omits texts in `known`, and adds the others. */
function renderByFile(messages: readonly Message[], known: Set<string>): string {
  const byFile = new Map<string, string[]>()
  for (const { path, name = '', text } of messages) {
    if (known.has(text)) continue
    known.add(text)
    const code = name === '' ? '' : ` (\`${name}\`)`
    byFile.set(path, [...(byFile.get(path) ?? []), `${wrap(`- ${escape(text)}${code}`)}\n`])
  }
  return [...byFile].map(([path, lines]) => `${path}\n\n${lines.join('')}`).join('\n')
}

function listAlerts(): Message[] {
  return globSync('deploy/alerts/*.yaml', { cwd: root })
    .toSorted()
    .flatMap((path) =>
      rulesSchema
        .parse(parse(readFileSync(join(root, path), 'utf8')))
        .groups.flatMap(({ rules }) => rules)
        .flatMap(({ alert, annotations }) =>
          alert === undefined ? [] : [{ path, name: alert, text: annotations?.['summary'] ?? '' }],
        ),
    )
}

function wrap(item: string): string {
  return item.replaceAll(/(.{1,158})(?: |$)/g, '$1\n  ').trimEnd()
}

function escape(text: string): string {
  return text.replaceAll('<', '&lt;')
}
