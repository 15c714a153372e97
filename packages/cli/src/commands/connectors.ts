import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type PosternClient, PosternProblem, createPosternClient } from '@postern/client'
import type { Connector, Run } from '@postern/contracts'
import { internalPaths, rewrappedSchema } from '@postern/contracts/internal'
import { describeConnectionFailure, describeForeignAnswer, describeRedirect } from '../connection-failure.ts'
import {
  CliError,
  rejectedByServerError,
  unavailableError,
  unsuccessfulError,
  usageError,
  withWatchedRun,
} from '../cli-error.ts'
import { openKeysService } from '../keys-service.ts'
import { type CommandContext, type OutputOptions, printJson, withKeysService } from '../session.ts'
import { readGatewaySettings, readSettings, readSyncUrl } from '../settings.ts'
import { moment, formatSheet, formatTable } from '../table.ts'
import { allTenants } from './tenants.ts'

export async function listConnectors(context: CommandContext, options: OutputOptions): Promise<void> {
  const connectors = await withGateway(context, async (client) => await client.sync.connectors.list().all())
  if (options.json) {
    printJson(context, connectors)
    return
  }
  const rows = connectors.map(({ key, name, type, dataset, state, last_run_at, next_run_at }: Connector) => [
    key,
    name,
    type,
    dataset,
    state,
    moment(last_run_at),
    moment(next_run_at),
  ])
  context.print(formatTable(['KEY', 'NAME', 'TYPE', 'DATASET', 'STATE', 'LAST RUN', 'NEXT RUN'], rows))
}

export interface RunOptions extends OutputOptions {
  readonly file?: string
  readonly dryRun?: true
  readonly watch?: true
  readonly overrideSafety?: string
}

/** Starts a run, and with `watch` follows it to its end. */
export async function runConnector(context: CommandContext, key: string, options: RunOptions): Promise<void> {
  const file = await fileBody(options.file)
  const run = await withGateway(context, async (client) => {
    const begun = await client.sync.connectors.run(`key:${key}`, {
      query: {
        mode: options.dryRun === true ? 'dry_run' : 'apply',
        ...(options.overrideSafety === undefined ? {} : { override_safety: 'true', reason: options.overrideSafety }),
      },
      ...file,
    })
    return options.watch === true ? await watch(context, client.sync.runs, begun, options) : begun
  })
  showRun(context, run, options)
}

/** Throws if the run failed, was cancelled, needs approval or was applied in part. */
export function showRun(context: CommandContext, run: Run, { json }: OutputOptions): void {
  if (json) printJson(context, run)
  else context.print(formatRun(run))
  switch (run.status) {
    case 'failed': {
      const reason = run.failure?.message ?? 'no reason was given'
      throw unsuccessfulError(`the run failed: ${reason}`, { code: 'run_failed', run: run.id })
    }
    case 'needs_approval': {
      const line = 'the run exceeds a limit and needs approval; nothing has changed yet'
      throw unsuccessfulError(line, { code: 'run_needs_approval', run: run.id })
    }
    case 'cancelled':
      throw unsuccessfulError('the run was cancelled', { code: 'run_cancelled', run: run.id })
    case 'partial': {
      const line = `the run was applied only in part: \`connectors errors ${run.id}\` lists what was left out`
      throw unsuccessfulError(line, { code: 'run_partial', run: run.id })
    }
    default:
  }
}

export async function rewrapSecrets(context: CommandContext, options: OutputOptions): Promise<void> {
  const tenants = await withKeysService(context.env, allTenants)
  const settings = await readSettings(context.env)
  const service = openKeysService({ ...settings, keysUrl: await readSyncUrl(context.env) })
  let rewrapped = 0
  const unreadable: { readonly tenant: string; readonly connector: string; readonly name: string }[] = []
  try {
    for (const { id } of tenants) {
      const { body } = await service.call({
        method: 'POST',
        target: internalPaths.rewrapSecrets,
        tenantId: id,
        noResponseAdvice: 'Repeat the command; that is safe',
      })
      const answer = rewrappedSchema.parse(body)
      rewrapped += answer.rewrapped
      unreadable.push(...answer.unreadable.map((secret) => ({ tenant: id, ...secret })))
    }
  } finally {
    service.close()
  }
  if (options.json) printJson(context, { tenants: tenants.length, rewrapped, unreadable })
  else context.print(`${rewrapped} secrets of ${tenants.length} tenants are encrypted with the current key now`)
  if (unreadable.length === 0) return
  const named = unreadable
    .slice(0, 20)
    .map(({ tenant, connector, name }) => `${name} of connector ${connector} (tenant ${tenant})`)
  const line = `${unreadable.length} secrets cannot be decrypted and were not changed. Add their key to the ring, or set them again: ${named.join(', ')}`
  throw unsuccessfulError(line, { unreadable })
}

class WatchEndedError extends Error {
  readonly run: string

  constructor(run: string, cause: unknown) {
    super('watching the run ended', { cause })
    this.run = run
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

export async function fileBody(
  path: string | undefined,
): Promise<{ readonly content?: ReadableStream<Uint8Array>; readonly contentType?: string }> {
  return path === undefined ? {} : { content: await openFile(path), contentType: 'application/octet-stream' }
}

async function openFile(path: string): Promise<ReadableStream<Uint8Array>> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isFile() !== true) throw usageError(`${path} is not a readable file`)
  return (await openAsBlob(path)).stream()
}

/** Throws a Failure. */
export async function withGateway<T>(context: CommandContext, work: (client: PosternClient) => Promise<T>): Promise<T> {
  const { url, key } = await readGatewaySettings(context.env)
  const client = openClient(url, key)
  try {
    return await work(client)
  } catch (error) {
    if (!(error instanceof WatchEndedError)) throw failureOf(error, url)
    const failure = failureOf(error.cause, url)
    throw failure instanceof CliError ? withWatchedRun(failure, error.run) : failure
  }
}

/** Returns errors that the client did not throw unchanged. */
export function failureOf(error: unknown, url: string): unknown {
  if (error instanceof PosternProblem) {
    return isRedirect(error)
      ? unavailableError(describeRedirect(new URL(url)), error)
      : rejectedByServerError(error.problem)
  }
  if (error instanceof TypeError) return unavailableError(describeConnectionFailure(error, new URL(url)), error)
  if (error instanceof SyntaxError) return unavailableError(describeForeignAnswer(new URL(url)), error)
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return unavailableError(`${url} did not respond in time. It may have processed the request`, error)
  }
  return error
}

/** The API sends no redirects. */
function isRedirect({ code, status }: PosternProblem): boolean {
  return code === 'unknown' && status >= 300 && status < 400
}

function openClient(baseUrl: string, key: string): PosternClient {
  try {
    return createPosternClient({ baseUrl, key })
  } catch {
    // Never show the value: it may be a part of a key.
    throw usageError('POSTERN_API_KEY must be a whole API key: postern_ and 49 characters')
  }
}
