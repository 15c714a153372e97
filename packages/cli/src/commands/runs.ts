import type { PosternClient } from '@postern/client'
import type { ConnectorTest, MissingRow, Run, RunError } from '@postern/contracts'
import { unsuccessfulError } from '../cli-error.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { withGateway } from '../gateway.ts'
import { fileBody } from './connectors.ts'
import { formatRun, showRun, watch } from './show-run.ts'

export async function testConnector(
  context: CommandContext,
  key: string,
  options: OutputOptions & { readonly file?: string },
): Promise<void> {
  const file = await fileBody(options.file)
  const found: ConnectorTest = await withGateway(
    context,
    async (client) => await client.sync.connectors.test(`key:${key}`, file),
  )
  const faulty = found.rows.filter(({ mapped }) => mapped === null).length
  if (options.json) {
    printJson(context, found)
  } else {
    const rows = found.rows.map(({ row, mapped, errors }) => [
      String(row),
      mapped === null
        ? errors.map(({ field, message }) => `${field ?? 'the row'} ${message}`).join('; ')
        : JSON.stringify(mapped),
    ])
    context.print(formatTable(['ROW', 'BECOMES'], rows))
  }
  if (faulty > 0)
    throw unsuccessfulError('rows_invalid', `${faulty} of the first ${found.rows.length} rows cannot be imported`)
}

export async function listRuns(
  context: CommandContext,
  { json, connector }: OutputOptions & { readonly connector?: string },
): Promise<void> {
  const runs = await withGateway(context, async (client) => {
    const query = { limit: 50, ...(connector === undefined ? {} : { connector }) }
    for await (const page of client.sync.runs.list(query).pages()) return page
    return []
  })
  if (json) {
    printJson(context, runs)
    return
  }
  const rows = runs.map(({ id, connector_key: key, status, mode, counts, created_at: at }: Run) => [
    id,
    key ?? '-',
    status,
    mode,
    String(counts.fetched),
    String(counts.applied),
    moment(at),
  ])
  context.print(formatTable(['RUN', 'CONNECTOR', 'STATUS', 'MODE', 'READ', 'APPLIED', 'BEGUN'], rows))
}

const maxShown = 20

export async function showRunById(context: CommandContext, id: string, { json }: OutputOptions): Promise<void> {
  if (json) {
    printJson(context, await withGateway(context, async (client) => await client.sync.runs.get(id)))
    return
  }
  const { run, errors } = await withGateway(context, async (client) => ({
    run: await client.sync.runs.get(id),
    errors: await listFirstErrors(client, id),
  }))
  const { mode, trigger, created_by: by, created_at: at, started_at: start, finished_at: end, attempt } = run
  const further = [
    ['mode', `${mode}${run.rollback_of === null ? '' : `, undoes run ${run.rollback_of}`}`],
    ['begun', `${moment(at)} by ${by.label} (${trigger})`],
    ['started', start === null ? '-' : `${moment(start)}${attempt > 1 ? `, attempt ${attempt}` : ''}`],
    ['ended', moment(end)],
    ...(run.reason === null ? [] : [['reason', run.reason] as const]),
  ] as const
  context.print(formatRun(run, further))
  if (errors.length === 0) return
  context.print(`\n${errorTable(errors.slice(0, maxShown))}`)
  if (errors.length > maxShown) context.print(`\nThere are more: connectors errors ${run.id}`)
}

async function listFirstErrors(client: PosternClient, id: string): Promise<readonly RunError[]> {
  for await (const page of client.sync.runs.errors(id, { limit: maxShown + 1 }).pages()) return page
  return []
}

export async function listMissing(context: CommandContext, key: string, { json }: OutputOptions): Promise<void> {
  const missing = await withGateway(context, async (client) => await client.sync.connectors.missing(`key:${key}`).all())
  if (json) {
    printJson(context, missing)
    return
  }
  const rows = missing.map(({ source_key: source, missing_since: since }: MissingRow) => [source, moment(since)])
  context.print(formatTable(['KEY', 'MISSING SINCE'], rows))
}

export async function listRunErrors(context: CommandContext, run: string, { json }: OutputOptions): Promise<void> {
  const errors = await withGateway(context, async (client) => await client.sync.runs.errors(run).all())
  if (json) {
    printJson(context, errors)
    return
  }
  context.print(errorTable(errors))
}

function errorTable(errors: readonly RunError[]): string {
  const rows = errors.map(({ row, source_key: key, field, severity, message, value_excerpt: value }: RunError) => [
    row === null ? '-' : String(row),
    key ?? '-',
    field ?? '-',
    severity === 'warning' ? `warning: ${message}` : message,
    value ?? '-',
  ])
  return formatTable(['ROW', 'KEY', 'FIELD', 'PROBLEM', 'VALUE'], rows)
}

export interface DecisionOptions extends OutputOptions {
  readonly watch?: true
  readonly reason?: string
}

export async function approveRun(
  context: CommandContext,
  run: string,
  options: DecisionOptions & { readonly diffHash: string },
): Promise<void> {
  const { diffHash, reason } = options
  const body = { diff_hash: diffHash, ...(reason === undefined ? {} : { reason }) }
  await decide(context, options, async (client) => await client.sync.runs.approve(run, body))
}

export async function rollbackRun(context: CommandContext, run: string, options: DecisionOptions): Promise<void> {
  const { reason } = options
  const body = reason === undefined ? undefined : { reason }
  await decide(context, options, async (client) => await client.sync.runs.rollback(run, body))
}

export async function cancelRun(context: CommandContext, run: string, options: OutputOptions): Promise<void> {
  const cancelled = await withGateway(context, async (client) => await client.sync.runs.cancel(run))
  if (options.json) printJson(context, cancelled)
  else context.print(formatRun(cancelled))
}

async function decide(
  context: CommandContext,
  options: DecisionOptions,
  make: (client: PosternClient) => Promise<Run>,
): Promise<void> {
  const run = await withGateway(context, async (client) => {
    const made = await make(client)
    return options.watch === true ? await watch(context, client.sync.runs, made, options) : made
  })
  showRun(context, run, options)
}
