import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { renderTable } from './table.ts'

const root = join(import.meta.dirname, '..', '..')

export interface Metric {
  readonly kind: string
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
}

const definition =
  /new (?<kind>Counter|Gauge|Histogram)(?:<[^>]*>)?\(\{\s+name: '(?<name>\w+)',\s+help:\s+(?<quote>['"`])(?<help>.*?)\k<quote>,\n(?:\s+labelNames: \[(?<labels>[^\]]*)\])?/g

export function listMetrics(): Metric[] {
  return globSync('{packages,services}/*/src/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] })
    .flatMap((path) => [...readFileSync(join(root, path), 'utf8').matchAll(definition)])
    .map(({ groups = {} }) => ({
      kind: (groups['kind'] ?? '').toLowerCase(),
      name: groups['name'] ?? '',
      help: groups['help'] ?? '',
      labels: [...(groups['labels'] ?? '').matchAll(/'(?<label>\w+)'/g)].map((match) => match.groups?.['label'] ?? ''),
    }))
    .toSorted((one, other) => one.name.localeCompare(other.name))
}

export function renderMetrics(): string {
  const rows = listMetrics().map(({ kind, name, help, labels }) => [
    `\`${name}\``,
    kind,
    labels.map((label) => `\`${label}\``).join(', '),
    help,
  ])
  return `# Metrics

What each process reports at \`/internal/metrics\`, beside Node.js's own metrics. Every metric also has the label \`service\`. No label holds a tenant, a key or a
URL. This file is generated from the code: \`npm run docs\`.

${renderTable(['metric', 'type', 'labels', 'meaning'], rows)}`
}
