import { Readable } from 'node:stream'
import type { Outbound } from '../src/outbound/outbound.ts'
import { SourceReadError } from '../src/source/source-read-error.ts'
import { sourceTypes } from '../src/source/index.ts'
import { defaultLimits } from '../src/source/limits.ts'
import { type SourceContext, type SourceItem, type SourceLimits, type SourceType, rowsOf } from '../src/source/types.ts'

export interface ReadOptions {
  readonly config?: unknown
  readonly secrets?: Readonly<Record<string, string>>
  readonly limits?: Partial<SourceLimits>
  readonly upload?: Readable
  readonly outbound?: Outbound
  readonly signal?: AbortSignal
}

/** An outbound client that reaches nothing. */
export const noWayOut: Outbound = {
  resolve: async () => await Promise.reject(new SourceReadError('address_not_allowed', 'this test has no network')),
  isListed: () => false,
  http: () => {
    throw new SourceReadError('address_not_allowed', 'this test has no network')
  },
}

export async function* openSource(type: string, options: ReadOptions = {}): AsyncGenerator<SourceItem> {
  for await (const item of typeOf(type).read(contextOf(options))) {
    if (item.kind === 'texts') yield* rowsOf(item)
    else yield item
  }
}

function typeOf(type: string): SourceType {
  const found = sourceTypes.get(type)
  if (found === undefined) throw new Error(`there is no source type ${type}`)
  return found
}

function contextOf(options: ReadOptions): SourceContext<unknown> {
  const { config = {}, secrets = {}, limits = {}, upload, outbound = noWayOut } = options
  const signal = options.signal ?? new AbortController().signal
  return { config, secrets, outbound, signal, limits: { ...defaultLimits, ...limits }, upload }
}

export async function readSource(type: string, options: ReadOptions = {}): Promise<SourceItem[]> {
  const items: SourceItem[] = []
  for await (const item of openSource(type, options)) items.push(item)
  return items
}

/** Returns the reported columns of a table, several times for one with many rows. */
export async function readColumns(type: string, options: ReadOptions = {}): Promise<(readonly string[])[]> {
  const told: (readonly string[])[] = []
  for await (const item of typeOf(type).read(contextOf(options))) {
    if (item.kind === 'texts') told.push(item.columns)
  }
  return told
}

/** Returns the failure of the read. Fails if it succeeds. */
export async function failureOf(type: string, options: ReadOptions = {}): Promise<SourceReadError> {
  try {
    await readSource(type, options)
  } catch (error) {
    if (error instanceof SourceReadError) return error
    throw error
  }
  throw new Error('the source could be read')
}

/** A file in small chunks, so that boundaries fall everywhere. */
export function fileOf(content: string | Uint8Array, pieceBytes = 7): Readable {
  const bytes = Buffer.from(content)
  return Readable.from(
    (function* pieces() {
      for (let start = 0; start < bytes.length; start += pieceBytes) yield bytes.subarray(start, start + pieceBytes)
    })(),
    { objectMode: false },
  )
}
