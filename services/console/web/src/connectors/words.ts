import type { Connector, Run, RunChange, Some } from '../api/sync.ts'
import type { Tone } from '../ui/badge.tsx'

/** What is synchronized, as people call it. */
export const datasetNames: Readonly<Record<Connector['dataset'], string>> = {
  org_structure: 'Organization',
  auditable_entities: 'Auditable entities',
  people: 'People',
  test_procedures: 'Test procedures',
}

/** Where it comes from. */
export const typeNames: Readonly<Record<Connector['type'], string>> = {
  csv: 'File',
  inline_json: 'Pushed to the API',
  http_json: 'HTTP API',
  scim: 'SCIM directory',
  scim_inbound: 'SCIM, pushed',
  ldap: 'LDAP directory',
  sql: 'Database',
}

/** Whether a run reads a file that comes with it. */
export function needsFile({ type, config }: Connector): boolean {
  return type === 'csv' && config['url'] === undefined
}

export const states = {
  active: { label: 'Active', tone: 'success' },
  paused: { label: 'Paused', tone: 'neutral' },
  error: { label: 'Failing', tone: 'danger' },
} as const satisfies Record<Connector['state'], { label: string; tone: Tone }>

/** What becomes of a row that the source has no longer. */
export const missingPolicies: Readonly<Record<Connector['missing_policy'], { title: string; help: string }>> = {
  flag: { title: 'Flag it', help: 'It stays as it is, and the run says that it is missing.' },
  deactivate: { title: 'Deactivate it', help: 'It becomes inactive, or archived. Nothing is ever deleted.' },
  ignore: { title: 'Leave it', help: 'Nothing happens, and nobody is told.' },
}

/** Whether programs send it what there is, so that it reads nothing itself. */
export function isPushed({ type }: Connector): boolean {
  return type === 'inline_json' || type === 'scim_inbound'
}

/** Those that are pushed to run by themselves. */
export function canBeRun(connector: Connector): boolean {
  return !isPushed(connector) && connector.state !== 'paused'
}

export const statuses: Readonly<Record<Run['status'], { readonly label: string; readonly tone: Tone }>> = {
  queued: { label: 'Waiting', tone: 'neutral' },
  fetching: { label: 'Reading', tone: 'info' },
  validating: { label: 'Checking', tone: 'info' },
  diffing: { label: 'Comparing', tone: 'info' },
  needs_approval: { label: 'Needs approval', tone: 'warning' },
  applying: { label: 'Applying', tone: 'info' },
  succeeded: { label: 'Done', tone: 'success' },
  partial: { label: 'Partly done', tone: 'warning' },
  failed: { label: 'Failed', tone: 'danger' },
  cancelled: { label: 'Cancelled', tone: 'neutral' },
}

/** A message of the API, which begins small and ends without a stop. */
export function asSentence(message: string): string {
  const first = message.charAt(0).toUpperCase()
  return `${first}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
}

/** Whether something still happens by itself. */
export function isRunning({ status }: Run): boolean {
  return ['queued', 'fetching', 'validating', 'diffing', 'applying'].includes(status)
}

/** How often connectors are read again by themselves, in milliseconds: a run changes what is said of them. */
export const connectorsEveryMs = () => 15_000

/** How often a list of runs is read again by itself, in milliseconds: where one may become something else any moment, and where one may begin. */
export function runsEveryMs({ items }: Some<Run>): number {
  return items.some((run) => isRunning(run) || run.status === 'needs_approval') ? 5000 : 15_000
}

export const modeNames: Readonly<Record<Run['mode'], string>> = {
  dry_run: 'Trial',
  apply: 'Run',
  rollback: 'Rollback',
}

export const operationNames: Readonly<Record<RunChange['op'], { readonly label: string; readonly tone: Tone }>> = {
  create: { label: 'New', tone: 'success' },
  update: { label: 'Changed', tone: 'info' },
  move: { label: 'Moved', tone: 'info' },
  deactivate: { label: 'Deactivated', tone: 'danger' },
  reactivate: { label: 'Reactivated', tone: 'success' },
}

/** The changes of a run in words, and the rows that are not among them: `12 new, 3 changed`, `No changes, 7 not taken in`. */
export function changesInWords({ counts }: Run): string {
  const parts = [
    [counts.created, 'new'],
    [counts.updated, 'changed'],
    [counts.moved, 'moved'],
    [counts.reactivated, 'reactivated'],
    [counts.deactivated, 'deactivated'],
  ] as const
  const words = parts.flatMap(([count, word]) => (count === 0 ? [] : [`${count.toLocaleString()} ${word}`]))
  const others = counts.invalid === 0 ? [] : [`${counts.invalid.toLocaleString()} not taken in`]
  return [...(words.length === 0 ? ['No changes'] : words), ...others].join(', ')
}

/** How many changes a run makes. */
export function changeCount({ counts }: Run): number {
  return counts.created + counts.updated + counts.moved + counts.reactivated + counts.deactivated
}

function number(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 1 })
}

function rows(count: number): string {
  return count === 1 ? '1 row' : `${number(count)} rows`
}

/** A limit that a run has gone beyond, as a sentence. */
export function breachInWords({ limit, allowed, actual }: Run['breaches'][number]): string {
  switch (limit) {
    case 'max_deactivate_pct':
      return `${number(actual)} % of the rows would be deactivated or are gone; ${number(allowed)} % are allowed.`
    case 'max_deactivate':
      return `${number(actual)} rows would be deactivated or are gone; ${number(allowed)} are allowed.`
    case 'min_rows':
      return `The source gave ${rows(actual)} that can be taken in; at least ${rows(allowed)} ${allowed === 1 ? 'is' : 'are'} expected.`
    case 'max_change_pct':
      return `${number(actual)} % of the rows would change; ${number(allowed)} % are allowed.`
  }
}
