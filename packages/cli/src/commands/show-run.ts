import type { PosternClient } from '@postern/client'
import type { Run } from '@postern/contracts'
import { unsuccessfulError } from '../cli-error.ts'
import { WatchEndedError } from '../gateway.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { formatSheet } from '../table.ts'

/** Throws if the run failed, was cancelled, needs approval or was applied in part. */
export function showRun(context: CommandContext, run: Run, { json }: OutputOptions): void {
  if (json) printJson(context, run)
  else context.print(formatRun(run))
  switch (run.status) {
    case 'failed': {
      const reason = run.failure?.message ?? 'no reason was given'
      throw unsuccessfulError('run_failed', `the run failed: ${reason}`, { run: run.id })
    }
    case 'needs_approval': {
      const line = 'the run exceeds a limit and needs approval; nothing has changed yet'
      throw unsuccessfulError('run_needs_approval', line, { run: run.id })
    }
    case 'cancelled':
      throw unsuccessfulError('run_cancelled', 'the run was cancelled', { run: run.id })
    case 'partial': {
      const line = `the run was applied only in part: \`connectors errors ${run.id}\` lists what was left out`
      throw unsuccessfulError('run_partial', line, { run: run.id })
    }
    default:
  }
}

/** Prints the id first, so that the run can be found again. */
export async function watch(
  context: CommandContext,
  runs: Pick<PosternClient['sync']['runs'], 'follow'>,
  begun: Run,
  { json }: OutputOptions,
): Promise<Run> {
  // With `--json`, standard error contains one document or nothing.
  const { note, progress } = json === true ? {} : context
  note?.(`run ${begun.id}`)
  let last = begun
  let said = ''
  try {
    for await (const run of runs.follow(begun.id)) {
      last = run
      const line = progressLine(run)
      if (line !== said) progress?.(line)
      said = line
    }
  } catch (error) {
    throw new WatchEndedError(begun.id, error)
  } finally {
    progress?.(undefined)
  }
  return last
}

const barWidth = 24

export function progressLine({ status, counts }: Pick<Run, 'status' | 'counts'>): string {
  const { created, updated, moved, reactivated, deactivated, applied, fetched, invalid } = counts
  const changes = created + updated + moved + reactivated + deactivated
  if (status !== 'applying') return `${status}  ${number(fetched)} rows, ${number(invalid)} with errors`
  const done = changes === 0 ? barWidth : Math.floor((applied / changes) * barWidth)
  return `applying  [${'#'.repeat(done).padEnd(barWidth, '.')}] ${number(applied)} of ${number(changes)} changes`
}

function number(value: number): string {
  return value.toLocaleString('en')
}

export function formatRun(run: Run, further: readonly (readonly [name: string, value: string])[] = []): string {
  const { counts } = run
  return formatSheet([
    ['run', run.id],
    ['connector', run.connector_key ?? '-'],
    ['status', run.failure === null ? run.status : `${run.status}: ${run.failure.message}`],
    ...further,
    ['rows', `${number(counts.fetched)} read, ${number(counts.valid)} valid, ${number(counts.invalid)} with errors`],
    [
      'changes',
      `${number(counts.created)} created, ${number(counts.updated)} updated, ${number(counts.moved)} moved, ` +
        `${number(counts.deactivated)} deactivated, ${number(counts.reactivated)} reactivated`,
    ],
    // Limits on deactivations count these.
    ['missing', `${number(counts.missing)} rows missing from the source`],
    ['applied', number(counts.applied)],
    ...run.breaches.map(
      ({ limit, actual, allowed }) => ['exceeds', `${limit}: ${actual}, allowed ${allowed}`] as const,
    ),
    ...(run.status === 'needs_approval' ? [['diff hash', run.diff_hash ?? ''] as const] : []),
  ])
}
