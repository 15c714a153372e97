import type { PartialList } from '../api/list.ts'
import type { Connector, Run, RunChange } from '../api/sync.ts'
import type { Tone } from '../ui/badge.tsx'

export const datasetNames: Readonly<Record<Connector['dataset'], string>> = {
  org_structure: 'Organization',
  auditable_entities: 'Auditable entities',
  people: 'People',
  test_procedures: 'Test procedures',
}

export const typeNames: Readonly<Record<Connector['type'], string>> = {
  csv: 'File',
  inline_json: 'Pushed to the API',
  http_json: 'HTTP API',
  scim: 'SCIM directory',
  scim_inbound: 'SCIM, pushed',
  ldap: 'LDAP directory',
  sql: 'Database',
}

export function needsFile({ type, config }: Connector): boolean {
  return type === 'csv' && config['url'] === undefined
}

export const states = {
  active: { label: 'Active', tone: 'success' },
  paused: { label: 'Paused', tone: 'neutral' },
  error: { label: 'Failing', tone: 'danger' },
} as const satisfies Record<Connector['state'], { label: string; tone: Tone }>

export const missingPolicies: Readonly<Record<Connector['missing_policy'], { title: string; help: string }>> = {
  flag: { title: 'Flag it', help: 'It stays unchanged, and the run reports that it is missing.' },
  deactivate: { title: 'Deactivate it', help: 'It becomes inactive, or archived. Resources are never deleted.' },
  ignore: { title: 'Leave it', help: 'It stays unchanged and is not reported.' },
}

export const authority = {
  title: 'It decides about access',
  help: 'People whom it deactivates can no longer sign in, if the sign-in file names a directory.',
}

export function isPushed({ type }: Connector): boolean {
  return type === 'inline_json' || type === 'scim_inbound'
}

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

export function asSentence(message: string): string {
  const first = message.charAt(0).toUpperCase()
  return `${first}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
}

export function isRunning({ status }: Run): boolean {
  return ['queued', 'fetching', 'validating', 'diffing', 'applying'].includes(status)
}

export const connectorsEveryMs = () => 15_000

export function runsEveryMs({ items }: PartialList<Run>): number {
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

/** `12 new, 3 changed`, `No changes, 7 not imported`. */
export function changesInWords({ counts }: Run): string {
  const parts = [
    [counts.created, 'new'],
    [counts.updated, 'changed'],
    [counts.moved, 'moved'],
    [counts.reactivated, 'reactivated'],
    [counts.deactivated, 'deactivated'],
  ] as const
  const words = parts.flatMap(([count, word]) => (count === 0 ? [] : [`${count.toLocaleString()} ${word}`]))
  const others = counts.invalid === 0 ? [] : [`${counts.invalid.toLocaleString()} not imported`]
  return [...(words.length === 0 ? ['No changes'] : words), ...others].join(', ')
}

export function changeCount({ counts }: Run): number {
  return counts.created + counts.updated + counts.moved + counts.reactivated + counts.deactivated
}

function number(value: number): string {
  return value.toLocaleString(undefined, { maximumFractionDigits: 1 })
}

function countRows(count: number): string {
  return count === 1 ? '1 row' : `${number(count)} rows`
}

export function describeBreach({ limit, allowed, actual }: Run['breaches'][number]): string {
  switch (limit) {
    case 'max_deactivate_pct':
      return `${number(actual)} % of the rows would be deactivated, lose access or are missing; ${number(allowed)} % are allowed.`
    case 'max_deactivate':
      return `${number(actual)} rows would be deactivated, lose access or are missing; ${number(allowed)} are allowed.`
    case 'min_rows':
      return `The source returned ${countRows(actual)} that can be imported; at least ${countRows(allowed)} ${allowed === 1 ? 'is' : 'are'} expected.`
    case 'max_change_pct':
      return `${number(actual)} % of the rows would change; ${number(allowed)} % are allowed.`
  }
}
