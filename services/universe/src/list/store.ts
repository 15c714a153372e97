import { text } from '@postern/contracts'
import type { Statement, Tx } from '@postern/tenant-db'
import { z } from 'zod'

/** Where a page begins: behind the row with this sort value and, among equals, this tie. */
export interface ListKey {
  readonly value: string | number
  readonly tie: string | number
}

/** Bytes that the rows of a page may have: their texts are as long as sources write them. A page of more is shorter. */
const mostBytes = 4 * 1024 * 1024

/** What a list can be sorted by: an expression that an index ends with, before the column that breaks ties. */
interface SortColumn {
  readonly expression: string
  readonly type: 'text' | 'timestamptz' | 'date' | 'integer'
}

interface ListParts<Sort extends string> {
  /** Beginning of the statements' names. */
  readonly name: string
  readonly columns: string
  readonly from: string
  /** Conditions whose parameters are `$1` to `$<filters>`. */
  readonly where: string
  readonly filters: number
  readonly sorts: Readonly<Record<Sort, SortColumn>>
  /** Unique in the tenant, hence the order is total. */
  readonly tie: { readonly column: string; readonly type: 'integer' | 'uuid' }
}

/** The statements of a list, two a sort: one for each direction. */
export interface ListStatements<Sort extends string> {
  page(order: Order<Sort>, filters: readonly unknown[], after: ListKey | undefined, limit: number): Statement
  /** What a cursor of the order may hold: it comes from a client. */
  keySchema(order: Order<Sort>): z.ZodType<ListKey>
  count(filters: readonly unknown[]): Statement
}

export type Order<Sort extends string> = Sort | `-${Sort}`

/**
 * One statement a sort and direction, the same for every page and filter: it always begins behind a key, so that even a
 * generic plan enters the sort's index where the page begins and stops after the page.
 */
export function listStatements<const Sort extends string>(parts: ListParts<Sort>): ListStatements<Sort> {
  const { name, columns, from, where, filters, sorts, tie } = parts
  // Once a sort: to make a schema takes longer than to make the statement.
  const schemas = new Map<Sort, z.ZodType<ListKey>>()
  return {
    page: (order, values, after, limit) => {
      const { sort, descending } = directionOf(order)
      const { expression, type } = sorts[sort]
      const [compare, direction] = descending ? ['<', 'desc'] : ['>', 'asc']
      const edge = after ?? edges(type, tie.type)[descending ? 'last' : 'first']
      return {
        name: `${name}_${sort}_${direction}`,
        text: `select ${columns}
          from ${from}
          where ${where}
            and (${expression}, ${tie.column}) ${compare} ($${filters + 1}::${type}, $${filters + 2}::${tie.type})
          order by ${expression} ${direction}, ${tie.column} ${direction}
          limit $${filters + 3}`,
        values: [...values, edge.value, edge.tie, limit],
        maxBytes: mostBytes,
      }
    },
    keySchema: (order) => {
      const { sort } = directionOf(order)
      const schema =
        schemas.get(sort) ?? z.strictObject({ value: valueSchemas[sorts[sort].type], tie: tieSchemas[tie.type] })
      schemas.set(sort, schema)
      return schema
    },
    // Reads the tenant's rows once; asked for explicitly (`count=true`).
    count: (values) => ({
      name: `${name}_count`,
      text: `select count(*)::integer as total from ${from} where ${where}`,
      values,
    }),
  }
}

function directionOf<Sort extends string>(order: Order<Sort>): { readonly sort: Sort; readonly descending: boolean } {
  const descending = order.startsWith('-')
  // What is left of `-${Sort}` without its sign.
  return { sort: (descending ? order.slice(1) : order) as Sort, descending }
}

const firstYear = '1900'
const valueSchemas = {
  text: text(0, 255),
  integer: z.int().min(1).max(2_147_483_647),
  date: z.union([z.iso.date().refine((day) => day >= firstYear), z.literal('infinity')]),
  timestamptz: z.iso.datetime({ precision: 3 }).refine((time) => time >= firstYear),
} as const
const tieSchemas = { integer: z.int().min(1).max(2_147_483_647), uuid: z.uuid() } as const

/** What is before, and behind, all keys of a list that is sorted by such a value and tie. */
export function edges(
  type: SortColumn['type'],
  tie: 'integer' | 'uuid',
): { readonly first: ListKey; readonly last: ListKey } {
  return { first: first(type, tie), last: last(type, tie) }
}

function first(type: SortColumn['type'], tie: 'integer' | 'uuid'): ListKey {
  const value = { text: '', integer: 0, date: '-infinity', timestamptz: '-infinity' }[type]
  return { value, tie: { integer: 0, uuid: '00000000-0000-0000-0000-000000000000' }[tie] }
}

/** Behind everything that a column can hold: no text of ours is longer than 255 characters. */
function last(type: SortColumn['type'], tie: 'integer' | 'uuid'): ListKey {
  const value = { text: '\u{10ffff}'.repeat(256), integer: 2_147_483_647, date: 'infinity', timestamptz: 'infinity' }[
    type
  ]
  return { value, tie: { integer: 2_147_483_647, uuid: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }[tie] }
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** PostgreSQL reads no year 0 and no year 10000; nothing was changed that early or will be that late. */
export function timeOrInfinity(time: string | undefined): string {
  const at = time === undefined ? -1 : Date.parse(time)
  if (at < 0) return '-infinity'
  return at > lastTime ? 'infinity' : new Date(at).toISOString()
}

/** A day of a query as PostgreSQL reads it; null where there is none. */
export function dayOrNull(day: string | undefined): string | null {
  if (day === undefined) return null
  return day < '0001' ? '-infinity' : day
}

/** A statement that brings a page of rows, as `listStatements` does. */
export function listStatement(name: string, sql: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text: sql, values, maxBytes: mostBytes })
}

/**
 * Has the rest of the transaction read by indexes. PostgreSQL keeps the plans of foreign keys and triggers for as long as a
 * connection lives: one that was made while a table was small, and reads all of it, would be kept when it has grown.
 */
export async function readByIndexes(tx: Tx): Promise<void> {
  await tx.execute({ text: 'set local enable_seqscan = off', values: [] })
}

/**
 * Has the rest of the transaction keep the rows of a push in memory: of the 4 MiB that PostgreSQL gives a step otherwise, a push
 * of 24 MiB goes through files several times over, and where disks are slow is not done within the time of a statement.
 */
export async function keepInMemory(tx: Tx): Promise<void> {
  await tx.execute({ text: `set local work_mem = '32MB'`, values: [] })
}

/**
 * How long the rows of a push are that one statement takes in, in characters: it has five seconds, however busy the database is,
 * and a push may have 24 MiB.
 */
export const sliceLength = 4_000_000

/**
 * Has the rest of the transaction compare sets by hashing. PostgreSQL knows nothing yet of rows that the transaction has
 * just written, takes them for one or two, and would go through all of them for each of them.
 */
export async function compareAsSets(tx: Tx): Promise<void> {
  await Promise.all([readByIndexes(tx), tx.execute({ text: 'set local enable_nestloop = off', values: [] })])
}
