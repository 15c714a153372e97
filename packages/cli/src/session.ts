import { type OperatorRequest, type OperatorService, openOperatorService } from './operator-service.ts'
import { unexpectedError } from './cli-error.ts'
import { printableJson } from './printable.ts'
import { type Environment, readSettings, readSyncUrl } from './settings.ts'

export interface CommandContext {
  readonly env: Environment
  print(text: string): void
  note?(line: string): void
  /** Replaces the line on standard error; undefined ends it. */
  progress?(line: string | undefined): void
  readInput?(): Promise<string>
}

export interface OutputOptions {
  readonly json?: true
}

export async function withKeysService<T>(env: Environment, work: (service: OperatorService) => Promise<T>): Promise<T> {
  const settings = await readSettings(env)
  return await withService(openOperatorService(settings, { name: 'keys', url: settings.keysUrl }), work)
}

export async function withSyncService<T>(env: Environment, work: (service: OperatorService) => Promise<T>): Promise<T> {
  const url = await readSyncUrl(env)
  return await withService(openOperatorService(await readSettings(env), { name: 'sync', url }), work)
}

async function withService<T>(service: OperatorService, work: (service: OperatorService) => Promise<T>): Promise<T> {
  try {
    return await work(service)
  } finally {
    service.close()
  }
}

interface Schema<T> {
  safeParse(value: unknown): { readonly success: true; readonly data: T } | { readonly success: false }
}

/** Throws a CliError for an answer that does not match the contract. */
export function parseAnswer<T>(schema: Schema<T>, body: unknown): T {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  throw unexpectedError('the service returned a response that this version of the command does not understand')
}

/** Reads pages until the end or `limit` resources. */
export async function listAll<T>(
  service: OperatorService,
  request: Omit<OperatorRequest, 'method' | 'target' | 'body'>,
  list: {
    readonly path: string
    readonly query: URLSearchParams
    readonly schema: Schema<T[]>
    readonly limit: number
  },
): Promise<T[]> {
  const items: T[] = []
  list.query.set('limit', String(Math.min(list.limit, 1000)))
  let target: string | undefined = `${list.path}?${list.query.toString()}`
  while (target !== undefined && items.length < list.limit) {
    const { body, next } = await service.call({ ...request, method: 'GET', target })
    items.push(...parseAnswer(list.schema, body))
    target = next
  }
  return items.slice(0, list.limit)
}

export function printJson({ print }: CommandContext, value: unknown): void {
  print(printableJson(JSON.stringify(value, undefined, 2)))
}
