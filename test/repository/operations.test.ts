import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { problemTypes } from '@postern/contracts'
import { findDebianProgram } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { createMetrics } from '../../packages/service-kit/src/metrics.ts'

const root = join(import.meta.dirname, '..', '..')
const runbook = readFileSync(join(root, 'docs/operations/runbook.md'), 'utf8')

const ruleFiles = ['postern.yaml', 'objectives.yaml'].map((name) => join(root, 'deploy/alerts', name))
const alertSchema = z.strictObject({
  alert: z.string(),
  expr: z.string(),
  for: z.string().regex(/^\d+m$/),
  labels: z.strictObject({ severity: z.enum(['page', 'ticket']) }),
  annotations: z.strictObject({ summary: z.string(), runbook: z.string() }),
})
const recordSchema = z.strictObject({ record: z.string().regex(/^postern:\w+:\w+$/), expr: z.string() })
const rules = ruleFiles.flatMap((path) =>
  z
    .object({
      groups: z.array(z.strictObject({ name: z.string(), rules: z.array(z.union([alertSchema, recordSchema])) })),
    })
    .parse(parse(readFileSync(path, 'utf8')))
    .groups.flatMap((group) => group.rules),
)
const alerts = rules.flatMap((rule) => ('alert' in rule ? [rule] : []))
const records = rules.flatMap((rule) => ('record' in rule ? [rule] : []))

const panels = z
  .looseObject({
    panels: z.array(z.looseObject({ title: z.string(), targets: z.array(z.looseObject({ expr: z.string() })).min(1) })),
  })
  .parse(JSON.parse(readFileSync(join(root, 'deploy/dashboards/postern.json'), 'utf8'))).panels

const sources = globSync('{packages,services}/*/src/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] }).map((path) =>
  readFileSync(join(root, path), 'utf8'),
)

/** What runs in an installation: not the local stack, nor the client of integrators. */
const services = globSync('{packages/service-kit,services/*}/src/**/*.ts', {
  cwd: root,
  exclude: ['**/*.test.ts'],
}).map((path) => readFileSync(join(root, path), 'utf8'))

/** Metrics that the code registers, with their labels: those of ours from the sources, those of Node by asking. */
function registered(): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>()
  const definition = /new (Counter|Gauge|Histogram)\(\{\s+name: '(\w+)',\s+help: .*,\n(?:\s+labelNames: \[([^\]]*)\])?/g
  for (const [, kind, name = '', labels = ''] of sources.flatMap((text) => [...text.matchAll(definition)])) {
    const names = ['service', 'instance', ...[...labels.matchAll(/'(\w+)'/g)].map(([, label = '']) => label)]
    if (kind !== 'Histogram') found.set(name, names)
    else for (const part of ['bucket', 'count', 'sum']) found.set(`${name}_${part}`, [...names, 'le'])
  }
  return found
}

const own = registered()
const ofNode = createMetrics('any')
  .getMetricsAsArray()
  .map(({ name }) => name)
/** Metrics that Prometheus adds. */
const ofPrometheus: ReadonlyMap<string, readonly string[]> = new Map([['up', ['job', 'instance']]])

/** Returns the names in an expression: metrics, recording rules and labels. */
function metricsIn(expression: string): string[] {
  return [...expression.matchAll(/\b(?:(?:postern|nodejs|process)_\w+|up\b(?=\{))/g)].map(([name]) => name)
}

function recordsIn(expression: string): string[] {
  return [...expression.matchAll(/\bpostern:\w+:\w+/g)].map(([name]) => name)
}

function labelsIn(expression: string): string[] {
  const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '))
  const matched = [...expression.matchAll(/[{,]\s*(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, name = '']) => name)
  return [...grouped, ...matched]
}

const expressions = [
  ...records.map(({ record, expr }) => [`record ${record}`, expr] as const),
  ...alerts.map(({ alert, expr }) => [`alert ${alert}`, expr] as const),
  ...panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [`panel ${title}`, expr] as const)),
]

describe('every watched series exists', () => {
  test('every metric is found in the code', () => {
    const names = sources.flatMap((text) =>
      [...text.matchAll(/^\s+name: '(postern_(?!set_)\w+)',$/gm)].map(([, n = '']) => n),
    )
    expect(names.length).toBeGreaterThan(9)
    for (const name of names)
      expect(
        [...own.keys()].some((known) => known.startsWith(name)),
        name,
      ).toBe(true)
  })

  test.each(expressions)('%s', (_title, expression) => {
    const metrics = metricsIn(expression)
    const recorded = recordsIn(expression)
    expect([...metrics, ...recorded]).not.toEqual([])
    expect(recorded.filter((name) => !records.some(({ record }) => record === name))).toEqual([])
    expect(metrics.filter((name) => !own.has(name) && !ofNode.includes(name) && !ofPrometheus.has(name))).toEqual([])
    const known = new Set(metrics.flatMap((name) => own.get(name) ?? ofPrometheus.get(name) ?? ['service', 'instance']))
    expect(labelsIn(expression).filter((label) => !known.has(label))).toEqual([])
  })

  test('no expression uses a whole number as a histogram bound, because Prometheus 2 and 3 format it differently', () => {
    expect(expressions.filter(([, expression]) => /\ble="\d+"/.test(expression))).toEqual([])
    expect(expressions.filter(([, expression]) => expression.includes('le=~"1|1[.]0"'))).toHaveLength(2)
  })

  test('every recorded series is used', () => {
    const used = new Set(expressions.flatMap(([, expression]) => recordsIn(expression)))
    expect(records.filter(({ record }) => !used.has(record))).toEqual([])
  })

  test('the dashboard shows every metric', () => {
    const shown = new Set(panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => metricsIn(expr))))
    const unshown = [...own.keys()].filter((name) => !/_(?:count|sum)$/.test(name) && !shown.has(name))
    expect(unshown).toEqual([])
  })
})

const promtool = await findDebianProgram('prometheus', 'usr/bin/promtool')
if (typeof promtool === 'string') process.stdout.write(`alerts are not run: ${promtool}\n`)

function run(...args: readonly string[]): string {
  const { folder, env } = typeof promtool === 'string' ? { folder: '', env: {} } : promtool
  const { status, stdout, stderr } = spawnSync(join(folder, 'usr/bin/promtool'), args, { env, encoding: 'utf8' })
  return status === 0 ? 'as expected' : `${stdout}${stderr}`
}

const tried = z
  .looseObject({
    tests: z.array(
      z.looseObject({
        alert_rule_test: z.array(z.looseObject({ alertname: z.string(), exp_alerts: z.array(z.unknown()) })),
      }),
    ),
  })
  .parse(parse(readFileSync(join(import.meta.dirname, 'alerts.promtool.yaml'), 'utf8')))
  .tests.flatMap((one) => one.alert_rule_test)

test.each(alerts)('$alert is tested without and with its condition', ({ alert }) => {
  const outcomes = tried.filter(({ alertname }) => alertname === alert).map((one) => one.exp_alerts.length > 0)
  expect(new Set(outcomes)).toEqual(new Set([false, true]))
})

describe.skipIf(typeof promtool === 'string')('by the rules of Prometheus itself', () => {
  test('the files are valid Prometheus rules', () => expect(run('check', 'rules', ...ruleFiles)).toBe('as expected'))

  test('alerts fire for faults and stay silent for a healthy system', () => {
    expect(run('test', 'rules', join(import.meta.dirname, 'alerts.promtool.yaml'))).toBe('as expected')
  })
})

describe('the runbook', () => {
  test.each(alerts)('explains what $alert means and what to do', ({ alert, annotations }) => {
    const section = runbook.split(`\n### ${alert}\n`)[1]?.split('\n#')[0] ?? ''
    expect(section).toMatch(/- Check: .{10}[^]*- Do: .{10}/)
    expect(annotations.runbook).toBe(`docs/operations/runbook.md#${alert.toLowerCase()}`)
  })

  test('states the objective of each budget', () => {
    const table = runbook.split('\n## Objectives\n')[1]?.split('\n## ')[0] ?? ''
    const stated = [...table.matchAll(/^\| (\w+) \|.* \| `(postern:\w+:ratio_rate)…` \|$/gm)].map(
      ([, , name = '']) => name,
    )
    const recorded = new Set(records.map(({ record }) => record.replace(/\d+[mhd]$/, '')))
    expect(stated.toSorted()).toEqual([...recorded].toSorted())
  })

  test('links the pages that explain problem codes and log events', () => {
    expect(runbook).toContain('(../reference/problem-causes.md)')
    expect(runbook).toContain('(../reference/log-events.md)')
  })
})

describe('the reference', () => {
  test('explains every problem code and no others', () => {
    const table = readFileSync(join(root, 'docs/reference/problem-causes.md'), 'utf8')
    const explained = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, code = '']) => code)
    expect(explained.toSorted()).toEqual(Object.keys(problemTypes).toSorted())
  })

  test('explains every log event and no others', () => {
    const table = readFileSync(join(root, 'docs/reference/log-events.md'), 'utf8')
    const named = [...table.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? [])
    expect(named.filter((event) => !sources.some((text) => text.includes(`'${event}'`)))).toEqual([])
    const written = new Set(
      services.flatMap((text) => [...text.matchAll(/\{\s*event: '(\w+)'/g)].map(([, event]) => event)),
    )
    expect(written.size).toBeGreaterThan(50)
    expect([...written].filter((event) => event !== undefined && !named.includes(event))).toEqual([])
  })
})
