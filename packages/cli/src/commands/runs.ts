import type { PosternClient } from '@postern/client'
import type { ConnectorTest, MissingRow, Run, RunError } from '@postern/contracts'
import { contradicted } from '../failure.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { moment, table } from '../table.ts'
import { asking, fileBody, sheetOf, showRun, watch } from './connectors.ts'

/** `connectors test`: what the first rows of its source are, and what they become. */
export async function testConnector(
  context: CommandContext,
  key: string,
  options: OutputOptions & { readonly file?: string },
): Promise<void> {
  const file = await fileBody(options.file)
  const found: ConnectorTest = await asking(
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
    context.print(table(['ROW', 'BECOMES'], rows))
  }
  if (faulty > 0) throw contradicted(`${faulty} of the first ${found.rows.length} rows cannot be taken in`, {})
}

/** `connectors runs`: the newest runs, of one connector or of all. */
export async function listRuns(
  context: CommandContext,
  { json, connector }: OutputOptions & { readonly connector?: string },
): Promise<void> {
  const runs = await asking(context, async (client) => {
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
  context.print(table(['RUN', 'CONNECTOR', 'STATUS', 'MODE', 'READ', 'APPLIED', 'BEGUN'], rows))
}

/** `connectors missing`: what the source of a connector has no longer. */
export async function listMissing(context: CommandContext, key: string, { json }: OutputOptions): Promise<void> {
  const missing = await asking(context, async (client) => await client.sync.connectors.missing(`key:${key}`).all())
  if (json) {
    printJson(context, missing)
    return
  }
  const rows = missing.map(({ source_key: source, missing_since: since }: MissingRow) => [source, moment(since)])
  context.print(table(['KEY', 'MISSING SINCE'], rows))
}

/** `connectors errors`: what is to be mended in the source of a run. */
export async function listRunErrors(context: CommandContext, run: string, { json }: OutputOptions): Promise<void> {
  const errors = await asking(context, async (client) => await client.sync.runs.errors(run).all())
  if (json) {
    printJson(context, errors)
    return
  }
  const rows = errors.map(({ row, source_key: key, field, severity, message, value_excerpt: value }: RunError) => [
    row === null ? '-' : String(row),
    key ?? '-',
    field ?? '-',
    severity === 'warning' ? `warning: ${message}` : message,
    value ?? '-',
  ])
  context.print(table(['ROW', 'KEY', 'FIELD', 'WHAT TO MEND', 'VALUE'], rows))
}

export interface DecisionOptions extends OutputOptions {
  readonly watch?: true
  readonly reason?: string
}

/** `connectors approve`: the changes of that hash, and no others. */
export async function approveRun(
  context: CommandContext,
  run: string,
  options: DecisionOptions & { readonly diffHash: string },
): Promise<void> {
  const { diffHash, reason } = options
  const body = { diff_hash: diffHash, ...(reason === undefined ? {} : { reason }) }
  await decide(context, options, async (client) => await client.sync.runs.approve(run, body))
}

/** `connectors rollback`: a new run that undoes what another has applied. */
export async function rollbackRun(context: CommandContext, run: string, options: DecisionOptions): Promise<void> {
  const { reason } = options
  const body = reason === undefined ? undefined : { reason }
  await decide(context, options, async (client) => await client.sync.runs.rollback(run, body))
}

/** `connectors cancel` */
export async function cancelRun(context: CommandContext, run: string, options: OutputOptions): Promise<void> {
  const cancelled = await asking(context, async (client) => await client.sync.runs.cancel(run))
  if (options.json) printJson(context, cancelled)
  else context.print(sheetOf(cancelled))
}

async function decide(
  context: CommandContext,
  options: DecisionOptions,
  make: (client: PosternClient) => Promise<Run>,
): Promise<void> {
  const run = await asking(context, async (client) => {
    const made = await make(client)
    return options.watch === true ? await watch(context, client.sync.runs, made, options) : made
  })
  showRun(context, run, options)
}
