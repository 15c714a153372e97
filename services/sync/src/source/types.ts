import type { Readable } from 'node:stream'
import { wordsOf } from '@postern/contracts'
import type { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import { SourceReadError } from './source-read-error.ts'
import { normalizeColumns } from './normalize-columns.ts'

export interface SourceRow {
  readonly kind: 'row'
  /** From 1. The header of a table is row 1, as in a spreadsheet. */
  readonly row: number
  readonly values: Readonly<Record<string, unknown>>
}

/** The read continues after an item that could not be read. */
export interface SourceRowError {
  readonly kind: 'error'
  readonly row: number
  readonly field?: string
  /** A stable identifier in snake_case. */
  readonly code: string
  /** For the owner of the data. Contains no secret and at most 80 characters of the data. */
  readonly message: string
  /** At most 80 characters. */
  readonly excerpt?: string
  /** The values that could be read. A key shows that the item still exists. */
  readonly values?: Readonly<Record<string, unknown>>
  /** The item is an error only if the mapping reads a faulty column. */
  readonly faults?: readonly ColumnFault[]
}

export interface ColumnFault {
  readonly column: string
  readonly code: string
  readonly message: string
  readonly excerpt?: string
}

export type SourceItem = SourceRow | SourceRowError

export function toRowOrError(
  row: number,
  values: Readonly<Record<string, unknown>>,
  faults: readonly ColumnFault[],
): SourceItem {
  const [first] = faults
  if (first === undefined) return { kind: 'row', row, values }
  const { column, ...fault } = first
  return { kind: 'error', row, field: toExcerpt(column), ...fault, values, faults }
}

export function toExcerpt(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 79).toWellFormed()}…`
}

/** Rows of a table, kept as text until a row is requested, so that unchanged rows need not be parsed. */
export interface SourceTexts {
  readonly kind: 'texts'
  /** The columns to read. */
  readonly columns: readonly string[]
  /** Whether `columns` are all columns of the table. */
  readonly isWhole: boolean
  /** Identifies how texts are parsed: equal texts with equal `form` and `columns` have equal values. */
  readonly form: string
  readonly texts: readonly string[]
  readonly rows: number
  /** Returns a row, or undefined for an empty line. */
  at(index: number): SourceItem | undefined
}

/** Column names are in NFC. */
export function emptyTable(names: readonly string[]): SourceTexts {
  const columns = names.map((name) => name.normalize('NFC'))
  return { kind: 'texts', columns, isWhole: true, form: '', texts: [], rows: 0, at: () => undefined }
}

export function* rowsOf(texts: SourceTexts): Generator<SourceItem> {
  for (let index = 0; index < texts.texts.length; index += 1) {
    const row = texts.at(index)
    if (row !== undefined) yield row
  }
}

/** Exceeding one ends the read with a SourceReadError. */
export interface SourceLimits {
  /** After decompression, over all responses or the whole connection. */
  readonly maxBytes: number
  /** A table may have twice as many lines, because empty ones count. */
  readonly maxRows: number
  readonly maxPageBytes: number
  readonly maxPages: number
  readonly maxColumns: number
  readonly maxValueLength: number
  readonly maxDepth: number
  readonly maxDurationMs: number
  readonly maxSilenceMs: number
}

export interface SourceContext<Config> {
  readonly config: Config
  readonly secrets: Readonly<Record<string, string | undefined>>
  readonly outbound: Outbound
  /** The read closes what it opened, then throws the signal's reason. */
  readonly signal: AbortSignal
  readonly limits: SourceLimits
  readonly upload?: Readable | undefined
}

export interface SourceType {
  readonly type: string
  readonly configSchema: z.ZodType
  readonly secretNames: readonly string[]
  /** All attributes of a directory's items; undefined for other sources and an invalid `config`. */
  attributesOf(config: unknown): readonly string[] | undefined
  nameOf(name: string): string
  columnsOf(config: unknown): readonly string[] | undefined
  /** Reads the whole source in order. Only tables yield texts. Throws a SourceReadError if it cannot be read to its end. */
  read(context: SourceContext<unknown>): AsyncIterable<SourceItem | SourceTexts>
}

interface Definition<Schema extends z.ZodType> {
  readonly type: string
  readonly configSchema: Schema
  readonly secretNames: readonly string[]
  readonly attributesOf?: (config: z.output<Schema>) => readonly string[]
  readonly nameOf?: (name: string) => string
  readonly columnsOf?: (config: z.output<Schema>) => readonly string[] | undefined
  read(context: SourceContext<z.output<Schema>>): AsyncIterable<SourceItem | SourceTexts>
}

export function defineSourceType<Schema extends z.ZodType>(definition: Definition<Schema>): SourceType {
  const { type, configSchema, secretNames } = definition
  return {
    type,
    configSchema,
    secretNames,
    nameOf: definition.nameOf ?? ((name) => name),
    attributesOf: (config) => {
      const parsed = configSchema.safeParse(config)
      return parsed.success ? definition.attributesOf?.(parsed.data) : undefined
    },
    columnsOf: (config) => {
      const parsed = configSchema.safeParse(config)
      return parsed.success ? definition.columnsOf?.(parsed.data) : undefined
    },
    read: (context) => readWithLimits(configSchema, context, (parsed) => definition.read(parsed)),
  }
}

function parseConfig<Schema extends z.ZodType>(configSchema: Schema, config: unknown): z.output<Schema> {
  const { success, data, error } = configSchema.safeParse(config)
  if (success) return data
  const [issue] = error.issues
  const place = ['config', ...(issue?.path ?? [])].join('.')
  const message = `\`${place}\` of the connector ${issue === undefined ? 'is not valid' : wordsOf(issue)}: change it`
  throw new SourceReadError('config_invalid', message, { cause: error })
}

/** Texts of a table were normalized while decoding. */
function normalizeItem(item: SourceItem | SourceTexts): SourceItem | SourceTexts {
  if (item.kind === 'texts' || item.values === undefined) return item
  const normalized = normalizeColumns(item.values)
  if (normalized === undefined) return item
  const { values, faults } = normalized
  if (item.kind === 'row') return toRowOrError(item.row, values, faults)
  const known = item.faults?.map((fault) => ({ ...fault, column: fault.column.normalize('NFC') }))
  return known === undefined ? { ...item, values } : toRowOrError(item.row, values, [...known, ...faults])
}

async function* readWithLimits<Schema extends z.ZodType>(
  configSchema: Schema,
  context: SourceContext<unknown>,
  read: (context: SourceContext<z.output<Schema>>) => AsyncIterable<SourceItem | SourceTexts>,
): AsyncGenerator<SourceItem | SourceTexts> {
  const config = parseConfig(configSchema, context.config)
  const { maxRows, maxDurationMs } = context.limits
  const timeLimit = AbortSignal.timeout(maxDurationMs)
  const ended = new AbortController()
  const signal = AbortSignal.any([context.signal, timeLimit, ended.signal])
  let [items, checkedItems] = [0, 0]
  try {
    signal.throwIfAborted()
    for await (const item of read({ ...context, config, signal })) {
      items += item.kind === 'texts' ? item.rows : 1
      if (items > maxRows) {
        throw new SourceReadError('too_many_rows', `the source has more than ${maxRows} rows: export fewer`)
      }
      yield normalizeItem(item)
      // Rarely, because a check takes longer than an item.
      if (items - checkedItems >= 256) {
        signal.throwIfAborted()
        checkedItems = items
      }
    }
  } catch (error) {
    // After a cancellation, other errors are its consequences.
    context.signal.throwIfAborted()
    if (!timeLimit.aborted) throw error
    const time = maxDurationMs < 120_000 ? `${maxDurationMs / 1000} s` : `${Math.round(maxDurationMs / 60_000)} minutes`
    throw new SourceReadError('source_too_slow', `the source was not read to its end within ${time}`, {
      retryable: true,
      cause: error,
    })
  } finally {
    ended.abort(new Error('the read is over'))
  }
}
