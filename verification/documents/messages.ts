import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { problemTypes } from '@postern/contracts'
import { parse } from 'yaml'
import { z } from 'zod'
import { type Message, listDetails, listFieldErrors, listLogEvents, listTexts } from './source-messages.ts'
import { renderTable } from './table.ts'

const root = join(import.meta.dirname, '..', '..')

const rulesSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string().optional(),
          labels: z.looseObject({ severity: z.string().optional() }).optional(),
          annotations: z.record(z.string(), z.string()).optional(),
        }),
      ),
    }),
  ),
})

export function renderMessages(): string {
  const titles = Object.entries(problemTypes).map(([code, { title }]) => [`\`${code}\``, title])
  const sections: readonly (readonly [string, string])[] = [
    ['Problem titles', renderTable(['code', 'title'], titles)],
    ['Problem details', renderTable(['source', 'code', 'detail'], listDetails().map(namedRow))],
    ['Field errors', renderByFile(listFieldErrors())],
    ['Command line', renderByFile(listTexts('{packages/cli,packages/installation}/src/**/*.ts'))],
    ['Console', renderByFile(listTexts('services/console/{web/src/**/*.{ts,tsx},src/pages/*.ts}'))],
    ['Log events', renderTable(['source', 'event', 'level'], listLogEvents().map(namedRow))],
    ['Alerts', renderTable(['alert', 'severity', 'summary'], listAlerts())],
  ]
  return `# Messages

Every text that people read, in the order of the sources, so that one person can review them in a row. \`{…}\` stands for a value. This file is generated
from the code: \`npm run docs\`.

${sections.map(([title, table]) => `## ${title}\n\n${table}`).join('\n')}`
}

function listAlerts(): string[][] {
  return globSync('deploy/alerts/*.yaml', { cwd: root })
    .toSorted()
    .flatMap((path) => rulesSchema.parse(parse(readFileSync(join(root, path), 'utf8'))).groups)
    .flatMap(({ rules }) => rules)
    .filter(({ alert }) => alert !== undefined)
    .map(({ alert = '', labels, annotations }) => [alert, labels?.severity ?? '', annotations?.['summary'] ?? ''])
}

function namedRow({ path, name = '', text }: Message): string[] {
  return [path, name === '' ? '' : `\`${name}\``, escape(text)]
}

function renderByFile(messages: readonly Message[]): string {
  return renderTable(
    ['source', 'text'],
    messages.map(({ path, text }) => [path, escape(text)]),
  )
}

function escape(text: string): string {
  return text.replaceAll('<', '&lt;')
}
