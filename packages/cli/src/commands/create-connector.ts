import { readFile } from 'node:fs/promises'
import { type Connector, createConnectorBodySchema, wordsOf } from '@postern/contracts'
import { usageError } from '../cli-error.ts'
import { withGateway } from '../gateway.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { moment, formatSheet } from '../table.ts'

export interface CreateOptions extends OutputOptions {
  readonly type: string
  readonly config: string
  readonly secrets?: string
}

/** Secrets come from a file or standard input, because every user of the machine can see a command line. */
export async function createConnector(context: CommandContext, key: string, options: CreateOptions): Promise<void> {
  const setup = parseObject(options.config, await readText(options.config))
  const own = ['key', 'type', 'secrets'].find((name) => Object.hasOwn(setup, name))
  if (own !== undefined) throw usageError(`${options.config}: remove \`${own}\`, which is an argument of the command`)
  const secrets = options.secrets === undefined ? {} : await readSecrets(context, options.secrets)
  const parsed = createConnectorBodySchema.safeParse({ name: key, ...setup, key, type: options.type, secrets })
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join('.')} ${wordsOf(issue)}`.trim())
    throw usageError(`the connector is not valid: ${faults.join('; ')}`)
  }
  const made = await withGateway(context, async (client) => await client.sync.connectors.create(parsed.data))
  if (options.json) printJson(context, made)
  else context.print(formatConnector(made))
}

async function readSecrets(context: CommandContext, path: string): Promise<Readonly<Record<string, unknown>>> {
  if (path !== '-') return parseObject(path, await readText(path))
  const name = 'standard input'
  if (context.readInput === undefined) throw usageError(`${name} cannot be read`)
  return parseObject(name, await context.readInput())
}

async function readText(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch(() => {
    throw usageError(`${path} is not a readable file`)
  })
}

/** The text may contain a secret. */
function parseObject(name: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw usageError(`${name} is not JSON`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw usageError(`${name} must contain a JSON object`)
  return { ...value }
}

function formatConnector({ id, key, name, type, dataset, secrets, next_run_at: next }: Connector): string {
  return formatSheet([
    ['connector', id],
    ['key', key],
    ['name', name],
    ['type', type],
    ['dataset', dataset],
    ['secrets', Object.keys(secrets).join(', ') || '-'],
    ['next run', moment(next)],
  ])
}
