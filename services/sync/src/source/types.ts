import type { Readable } from 'node:stream'
import { wordsOf } from '@postern/contracts'
import type { z } from 'zod'
import type { Outbound } from '../outbound/outbound.ts'
import { SourceFailure } from './failure.ts'
import { normalizeColumns } from './normalize-columns.ts'

/** One item of a source as it stands there, before any mapping. */
export interface SourceRow {
  readonly kind: 'row'
  /** Its place in the source, from 1. In a table with a header that is row 1, so that a spreadsheet shows the same number. */
  readonly row: number
  /** By column, attribute or member; a nested value stays nested. */
  readonly values: Readonly<Record<string, unknown>>
}

/** An item that could not be read. The items after it still come. */
export interface SourceRowError {
  readonly kind: 'error'
  readonly row: number
  readonly field?: string
  /** Stable, in snake_case. */
  readonly code: string
  /** What is wrong and what to mend, for the owner of the data. Holds no secret and no more than 80 characters of the data. */
  readonly message: string
  /** At most 80 characters of what stood there, where it can be told. */
  readonly excerpt?: string
  /** What of it could be read: by its key it is told from an item that is gone. */
  readonly values?: Readonly<Record<string, unknown>>
  /** All columns that could not be read. Only those that a mapping reads make the item an error. */
  readonly faults?: readonly ColumnFault[]
}

/** What is wrong with one column of an item, as SourceRowError says it. */
export interface ColumnFault {
  readonly column: string
  readonly code: string
  readonly message: string
  readonly excerpt?: string
}

export type SourceItem = SourceRow | SourceRowError

/** An item of which all that could be read is in `values`: an error if a column has a fault. */
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

/** Rows of a table that follow each other, each as the text of it until it is asked for. */
export interface SourceTexts {
  readonly kind: 'texts'
  /** Columns that are read. */
  readonly columns: readonly string[]
  /** Whether these are all that the texts have. */
  readonly isWhole: boolean
  /** What else decides about values: the same text has the same values wherever form and columns are the same. */
  readonly form: string
  readonly texts: readonly string[]
  /** How many of them have a value. */
  readonly rows: number
  /** The place of the first one in the source. */
  readonly first: number
  /** What stands in one column, where that is cheaply told from the text. */
  cell(index: number, column: string): string | undefined
  /** A row as it stands there; undefined where it has no value. */
  at(index: number): SourceItem | undefined
}

/** A table that has columns and no rows. Its columns are named in NFC, as those of rows are. */
export function noTexts(names: readonly string[]): SourceTexts {
  const columns = names.map((name) => name.normalize('NFC'))
  return { kind: 'texts', columns, isWhole: true, form: '', texts: [], rows: 0, first: 1, cell: nothing, at: nothing }
}

function nothing(): undefined {
  return undefined
}

/** Those rows of texts that have a value. */
export function* rowsOf(texts: SourceTexts): Generator<SourceItem> {
  for (let index = 0; index < texts.texts.length; index += 1) {
    const row = texts.at(index)
    if (row !== undefined) yield row
  }
}

/** Bounds on one read. What goes over one ends the read with a SourceFailure. */
export interface SourceLimits {
  /** Bytes taken from the source, decompressed, over all its answers; of a directory or a database, over its connection. */
  readonly maxBytes: number
  /** A table may have twice as many lines, empty ones among them. */
  readonly maxRows: number
  /** Bytes that are asked for at a time, and held whole. */
  readonly maxPageBytes: number
  readonly maxPages: number
  readonly maxColumns: number
  /** Characters of one value. */
  readonly maxValueLength: number
  /** How deep JSON may nest. */
  readonly maxDepth: number
  /** The whole read, in milliseconds. */
  readonly maxDurationMs: number
  /** How long the source may say nothing, in milliseconds. */
  readonly maxSilenceMs: number
}

/** What a read is given. */
export interface SourceContext<Config> {
  readonly config: Config
  /** Only those of the type's `secretNames`; one that is not set is not there. */
  readonly secrets: Readonly<Record<string, string | undefined>>
  readonly outbound: Outbound
  /** Ends the read: it then throws the signal's reason, and has closed what it opened. */
  readonly signal: AbortSignal
  readonly limits: SourceLimits
  /** The bytes that came with the request, for a source that is uploaded. */
  readonly upload?: Readable | undefined
}

/** A kind of source that a connector may have. */
export interface SourceType {
  readonly type: string
  /** What a connector of this type is set up with; secrets are no part of it. */
  readonly configSchema: z.ZodType
  readonly secretNames: readonly string[]
  /**
   * Of a directory all that its items have: case counts for nothing in the names, and an attribute that has one value is that value. Undefined of
   * any other source, and for a `config` that is not of the schema.
   */
  attributesOf(config: unknown): readonly string[] | undefined
  /** Returns a name of a member as the items of this source have it: case may not matter. */
  nameOf(name: string): string
  /** Of a table the columns that are read, where its `config` names them. Undefined where it does not, or is not of the schema. */
  columnsOf(config: unknown): readonly string[] | undefined
  /**
   * Reads the whole source, item by item and in its order, holding only as much as the reader has asked for. Throws a
   * SourceFailure when it cannot be read to its end, or `config` is not of the schema (any more).
   */
  read(context: SourceContext<unknown>): AsyncIterable<SourceItem>
  /** As `read`, for who knows most rows by their text. Also tells the columns of a table without rows. Other sources do not have it. */
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

/**
 * Makes a source type of a reader that takes its configuration parsed. Its items are counted and its time is measured here, so
 * that no type can forget to.
 */
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
    read: (context) => bounded(configSchema, context, (parsed) => definition.read(parsed)),
    ...(readTexts === undefined ? {} : { readTexts: (context) => bounded(configSchema, context, readTexts) }),
  }
}

/** One that was saved may be of a release that took more. */
function parseConfig<Schema extends z.ZodType>(configSchema: Schema, config: unknown): z.output<Schema> {
  const { success, data, error } = configSchema.safeParse(config)
  if (success) return data
  const [issue] = error.issues
  const place = ['config', ...(issue?.path ?? [])].join('.')
  const words = `\`${place}\` of the connector ${issue === undefined ? 'is not valid' : wordsOf(issue)}: change it`
  throw new SourceFailure('config_invalid', words, { cause: error })
}

/** Returns an item with its texts in NFC. The rows of a table that come as texts are normalized as they are decoded. */
function normalizeItem<Item extends SourceItem | SourceTexts>(item: Item): Item | SourceItem {
  if (item.kind === 'texts' || item.values === undefined) return item
  const normalized = normalizeColumns(item.values)
  if (normalized === undefined) return item
  const { values, faults } = normalized
  if (item.kind === 'row') return rowOrError(item.row, values, faults)
  const known = item.faults?.map((fault) => ({ ...fault, column: fault.column.normalize('NFC') }))
  return known === undefined ? { ...item, values } : rowOrError(item.row, values, [...known, ...faults])
}

async function* bounded<Schema extends z.ZodType, Item extends SourceItem | SourceTexts>(
  configSchema: Schema,
  context: SourceContext<unknown>,
  read: (context: SourceContext<z.output<Schema>>) => AsyncIterable<Item>,
): AsyncGenerator<Item | SourceItem> {
  const config = parseConfig(configSchema, context.config)
  const { maxRows, maxDurationMs } = context.limits
  const timeLimit = AbortSignal.timeout(maxDurationMs)
  const over = new AbortController()
  const signal = AbortSignal.any([context.signal, timeLimit, over.signal])
  let [items, asked] = [0, 0]
  try {
    signal.throwIfAborted()
    for await (const item of read({ ...context, config, signal })) {
      items += item.kind === 'texts' ? item.rows : 1
      if (items > maxRows) {
        throw new SourceFailure('too_many_rows', `the source has more than ${maxRows} rows: export fewer`)
      }
      yield normalizeItem(item)
      // Asking costs more than an item does, and those that wait for the source are ended by the signal themselves.
      if (items - asked >= 256) {
        signal.throwIfAborted()
        asked = items
      }
    }
  } catch (error) {
    // Whatever broke first when the read was ended, this is why.
    context.signal.throwIfAborted()
    if (!timeLimit.aborted) throw error
    const time = maxDurationMs < 120_000 ? `${maxDurationMs / 1000} s` : `${Math.round(maxDurationMs / 60_000)} minutes`
    throw new SourceFailure('source_too_slow', `the source was not read to its end within ${time}`, {
      retryable: true,
      cause: error,
    })
  } finally {
    // Also where the reader has had enough: what was opened for it closes now, whatever it waits for.
    over.abort(new Error('the read is over'))
  }
}
