import type { Readable } from 'node:stream'
import { wordsOf } from '@postern/contracts'
import type { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import { SourceFailure } from './failure.ts'
import { normalizeColumns } from './normalize-columns.ts'

/** One item of a source, before any mapping. */
export interface SourceRow {
  readonly kind: 'row'
  /** The position in the source, from 1. The header of a table is row 1, so that the numbers match a spreadsheet. */
  readonly row: number
  /** Values by column, attribute or member. Nested values stay nested. */
  readonly values: Readonly<Record<string, unknown>>
}

/** An item that could not be read. The read continues after it. */
export interface SourceRowError {
  readonly kind: 'error'
  readonly row: number
  readonly field?: string
  /** A stable identifier in snake_case. */
  readonly code: string
  /**
   * What is wrong and what to do, for the owner of the data. Contains no secret and at most 80 characters of the data.
   */
  readonly message: string
  /** At most 80 characters of the invalid value, if known. */
  readonly excerpt?: string
  /** The values that could be read. The key among them shows that the item still exists. */
  readonly values?: Readonly<Record<string, unknown>>
  /** All columns with faults. The item is an error only if the mapping reads one of them. */
  readonly faults?: readonly ColumnFault[]
}

/** A fault of one column, with the members of SourceRowError. */
export interface ColumnFault {
  readonly column: string
  readonly code: string
  readonly message: string
  readonly excerpt?: string
}

export type SourceItem = SourceRow | SourceRowError

/** Returns an error if a column has a fault, else a row. */
export function rowOrError(
  row: number,
  values: Readonly<Record<string, unknown>>,
  faults: readonly ColumnFault[],
): SourceItem {
  const [first] = faults
  if (first === undefined) return { kind: 'row', row, values }
  const { column, ...fault } = first
  return { kind: 'error', row, field: excerpt(column), ...fault, values, faults }
}

function excerpt(name: string): string {
  return name.length <= 80 ? name : `${name.slice(0, 79)}…`.toWellFormed()
}

/** Consecutive rows of a table, kept as text until a row is requested. */
export interface SourceTexts {
  readonly kind: 'texts'
  /** The columns to read. */
  readonly columns: readonly string[]
  /** Whether the texts have no other columns. */
  readonly isWhole: boolean
  /** Everything else that determines values: equal text has equal values if form and columns are equal. */
  readonly form: string
  readonly texts: readonly string[]
  /** How many of the texts are not empty. */
  readonly rows: number
  /** The row number of the first text. */
  readonly first: number
  /** Returns a row, or undefined for an empty line. */
  at(index: number): SourceItem | undefined
}

/** A table with columns and no rows. Column names are in NFC, like those of rows. */
export function emptyTable(names: readonly string[]): SourceTexts {
  const columns = names.map((name) => name.normalize('NFC'))
  return { kind: 'texts', columns, isWhole: true, form: '', texts: [], rows: 0, first: 1, at: nothing }
}

function nothing(): undefined {
  return undefined
}

/** Yields the rows of the texts, without empty lines. */
export function* rowsOf(texts: SourceTexts): Generator<SourceItem> {
  for (let index = 0; index < texts.texts.length; index += 1) {
    const row = texts.at(index)
    if (row !== undefined) yield row
  }
}

/** Limits of one read. Exceeding one ends the read with a SourceFailure. */
export interface SourceLimits {
  /**
   * Bytes from the source after decompression, over all responses; for a directory or database, over its connection.
   */
  readonly maxBytes: number
  /** A table may have twice as many lines, because empty ones count. */
  readonly maxRows: number
  /** Bytes of one page, which is held in memory. */
  readonly maxPageBytes: number
  readonly maxPages: number
  readonly maxColumns: number
  /** Characters of one value. */
  readonly maxValueLength: number
  /** Nesting depth of JSON. */
  readonly maxDepth: number
  /** Duration of the whole read, in milliseconds. */
  readonly maxDurationMs: number
  /** How long the source may stay silent, in milliseconds. */
  readonly maxSilenceMs: number
}

/** The input of a read. */
export interface SourceContext<Config> {
  readonly config: Config
  /** The secrets that the type names and the connector has. */
  readonly secrets: Readonly<Record<string, string | undefined>>
  readonly outbound: Outbound
  /** Cancels the read, which then throws the signal's reason after closing what it opened. */
  readonly signal: AbortSignal
  readonly limits: SourceLimits
  /** The body of the request, for an uploaded source. */
  readonly upload?: Readable | undefined
}

/** A source type that a connector may have. */
export interface SourceType {
  readonly type: string
  /** The schema of a connector's `config`, which holds no secrets. */
  readonly configSchema: z.ZodType
  readonly secretNames: readonly string[]
  /**
   * Returns all attributes of a directory's items: their names are case-insensitive, and a single value is not a list.
   * Undefined for other sources and an invalid `config`.
   */
  attributesOf(config: unknown): readonly string[] | undefined
  /** Returns the name of a member in the source's spelling, because case may not matter. */
  nameOf(name: string): string
  /** Returns the columns that `config` lists for a table, or undefined. */
  columnsOf(config: unknown): readonly string[] | undefined
  /**
   * Reads the whole source in order and on demand. Throws a SourceFailure if it cannot be read to its end, or if
   * `config` no longer fits the schema.
   */
  read(context: SourceContext<unknown>): AsyncIterable<SourceItem>
  /**
   * The same for a reader that recognizes most rows by their text. Also reports the columns of an empty table. Only
   * tables have it.
   */
  readonly readTexts?: (context: SourceContext<unknown>) => AsyncIterable<SourceItem | SourceTexts>
}

interface Definition<Schema extends z.ZodType> {
  readonly type: string
  readonly configSchema: Schema
  readonly secretNames: readonly string[]
  readonly attributesOf?: (config: z.output<Schema>) => readonly string[]
  readonly nameOf?: (name: string) => string
  readonly columnsOf?: (config: z.output<Schema>) => readonly string[] | undefined
  read(context: SourceContext<z.output<Schema>>): AsyncIterable<SourceItem>
  readonly readTexts?: (context: SourceContext<z.output<Schema>>) => AsyncIterable<SourceItem | SourceTexts>
}

/** Creates a source type whose reader gets a parsed configuration. Counts items and limits the time for all types. */
export function defineSourceType<Schema extends z.ZodType>(definition: Definition<Schema>): SourceType {
  const { type, configSchema, secretNames, readTexts } = definition
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
    ...(readTexts === undefined ? {} : { readTexts: (context) => readWithLimits(configSchema, context, readTexts) }),
  }
}

/** A stored configuration may come from a release that accepted more. */
function parseConfig<Schema extends z.ZodType>(configSchema: Schema, config: unknown): z.output<Schema> {
  const { success, data, error } = configSchema.safeParse(config)
  if (success) return data
  const [issue] = error.issues
  const place = ['config', ...(issue?.path ?? [])].join('.')
  const words = `\`${place}\` of the connector ${issue === undefined ? 'is not valid' : wordsOf(issue)}: change it`
  throw new SourceFailure('config_invalid', words, { cause: error })
}

/** Returns an item with its texts in NFC. Texts of a table were normalized while decoding. */
function normalizeItem<Item extends SourceItem | SourceTexts>(item: Item): Item | SourceItem {
  if (item.kind === 'texts' || item.values === undefined) return item
  const normalized = normalizeColumns(item.values)
  if (normalized === undefined) return item
  const { values, faults } = normalized
  if (item.kind === 'row') return rowOrError(item.row, values, faults)
  const known = item.faults?.map((fault) => ({ ...fault, column: fault.column.normalize('NFC') }))
  return known === undefined ? { ...item, values } : rowOrError(item.row, values, [...known, ...faults])
}

async function* readWithLimits<Schema extends z.ZodType, Item extends SourceItem | SourceTexts>(
  configSchema: Schema,
  context: SourceContext<unknown>,
  read: (context: SourceContext<z.output<Schema>>) => AsyncIterable<Item>,
): AsyncGenerator<Item | SourceItem> {
  const config = parseConfig(configSchema, context.config)
  const { maxRows, maxDurationMs } = context.limits
  const timeLimit = AbortSignal.timeout(maxDurationMs)
  const ended = new AbortController()
  const signal = AbortSignal.any([context.signal, timeLimit, ended.signal])
  let [items, asked] = [0, 0]
  try {
    signal.throwIfAborted()
    for await (const item of read({ ...context, config, signal })) {
      items += item.kind === 'texts' ? item.rows : 1
      if (items > maxRows) {
        throw new SourceFailure('too_many_rows', `the source has more than ${maxRows} rows: export fewer`)
      }
      yield normalizeItem(item)
      // Checked only now and then, because checking costs more than an item. Readers that wait for the source watch the
      // signal themselves.
      if (items - asked >= 256) {
        signal.throwIfAborted()
        asked = items
      }
    }
  } catch (error) {
    // The cancellation is the reason, whatever failed first because of it.
    context.signal.throwIfAborted()
    if (!timeLimit.aborted) throw error
    const time = maxDurationMs < 120_000 ? `${maxDurationMs / 1000} s` : `${Math.round(maxDurationMs / 60_000)} minutes`
    throw new SourceFailure('source_too_slow', `the source was not read to its end within ${time}`, {
      retryable: true,
      cause: error,
    })
  } finally {
    // Closes what was opened, also if the consumer stops early.
    ended.abort(new Error('the read is over'))
  }
}
