import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Connector } from '@postern/contracts'
import { internalPaths, rewrappedSchema } from '@postern/contracts/internal'
import { unsuccessfulError, usageError } from '../cli-error.ts'
import { withGateway } from '../gateway.ts'
import {
  type CommandContext,
  type OutputOptions,
  parseAnswer,
  printJson,
  withKeysService,
  withSyncService,
} from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { showRun, watch } from './show-run.ts'
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

export async function rewrapSecrets(context: CommandContext, options: OutputOptions): Promise<void> {
  const tenants = await withKeysService(context.env, allTenants)
  let rewrapped = 0
  const unreadable: { readonly tenant: string; readonly connector: string; readonly name: string }[] = []
  await withSyncService(context.env, async (service) => {
    for (const { id } of tenants) {
      const { body } = await service.call({
        method: 'POST',
        target: internalPaths.rewrapSecrets,
        tenantId: id,
        noResponseAdvice: 'Repeat the command; that is safe',
      })
      const answer = parseAnswer(rewrappedSchema, body)
      rewrapped += answer.rewrapped
      unreadable.push(...answer.unreadable.map((secret) => ({ tenant: id, ...secret })))
    }
  })
  if (options.json) printJson(context, { tenants: tenants.length, rewrapped, unreadable })
  else context.print(`${rewrapped} secrets of ${tenants.length} tenants are encrypted with the current key now`)
  if (unreadable.length === 0) return
  const named = unreadable
    .slice(0, 20)
    .map(({ tenant, connector, name }) => `${name} of connector ${connector} (tenant ${tenant})`)
  const line = `${unreadable.length} secrets cannot be decrypted and were not changed. Add their key to the ring, or set them again: ${named.join(', ')}`
  throw unsuccessfulError('secrets_unreadable', line, { unreadable })
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
