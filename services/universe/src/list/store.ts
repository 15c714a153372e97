import { text } from '@postern/contracts'
import type { Statement, Tx } from '@postern/tenant-db'
import { z } from 'zod'

/** A sort value and, among equals, a tie. */
export interface ListKey {
  readonly value: string | number
  readonly tie: string | number
}

const maxBytes = 4 * 1024 * 1024

/** Each one has an index that ends with the expression and the column for ties. */
interface SortColumn {
  readonly expression: string
  readonly type: 'text' | 'timestamptz' | 'date' | 'integer'
}

interface ListParts<Sort extends string> {
  readonly name: string
  readonly columns: string
  readonly from: string
  readonly where: string
  readonly filters: number
  readonly sorts: Readonly<Record<Sort, SortColumn>>
  /** Unique in the tenant, for a total order. */
  readonly tie: { readonly column: string; readonly type: 'integer' | 'uuid' }
}

export interface ListStatements<Sort extends string> {
  page(order: Order<Sort>, filters: readonly unknown[], after: ListKey | undefined, limit: number): Statement
  keySchema(order: Order<Sort>): z.ZodType<ListKey>
  count(filters: readonly unknown[]): Statement
}

export type Order<Sort extends string> = Sort | `-${Sort}`

/**
 * Each page starts after a key, so that even a generic plan reads only the part of the index that
 * the page needs.
 */
export function listStatements<const Sort extends string>(parts: ListParts<Sort>): ListStatements<Sort> {
  const { name, columns, from, where, filters, sorts, tie } = parts
  // Cached, because creating a schema is slower than the statement.
  const schemas = new Map<Sort, z.ZodType<ListKey>>()
  return {
    page: (order, values, after, limit) => {
      const { sort, descending } = directionOf(order)
      const { expression, type } = sorts[sort]
      const [compare, direction] = descending ? ['<', 'desc'] : ['>', 'asc']
      const edge = after ?? getEdges(type, tie.type)[descending ? 'last' : 'first']
      return {
        name: `${name}_${sort}_${direction}`,
        text: `select ${columns}
          from ${from}
          where ${where}
            and (${expression}, ${tie.column}) ${compare} ($${filters + 1}::${type}, $${filters + 2}::${tie.type})
          order by ${expression} ${direction}, ${tie.column} ${direction}
          limit $${filters + 3}`,
        values: [...values, edge.value, edge.tie, limit],
        maxBytes,
      }
    },
    keySchema: (order) => {
      const { sort } = directionOf(order)
      const schema =
        schemas.get(sort) ?? z.strictObject({ value: valueSchemas[sorts[sort].type], tie: tieSchemas[tie.type] })
      schemas.set(sort, schema)
      return schema
    },
    count: (values) => ({
      name: `${name}_count`,
      text: `select count(*)::integer as total from ${from} where ${where}`,
      values,
    }),
  }
}

function directionOf<Sort extends string>(order: Order<Sort>): { readonly sort: Sort; readonly descending: boolean } {
  const descending = order.startsWith('-')
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

export function getEdges(
  type: SortColumn['type'],
  tie: 'integer' | 'uuid',
): { readonly first: ListKey; readonly last: ListKey } {
  return { first: firstKey(type, tie), last: lastKey(type, tie) }
}

function firstKey(type: SortColumn['type'], tie: 'integer' | 'uuid'): ListKey {
  const value = { text: '', integer: 0, date: '-infinity', timestamptz: '-infinity' }[type]
  return { value, tie: { integer: 0, uuid: '00000000-0000-0000-0000-000000000000' }[tie] }
}

/** Texts have at most 255 characters. */
function lastKey(type: SortColumn['type'], tie: 'integer' | 'uuid'): ListKey {
  const value = { text: '\u{10ffff}'.repeat(256), integer: 2_147_483_647, date: 'infinity', timestamptz: 'infinity' }[
    type
  ]
  return { value, tie: { integer: 2_147_483_647, uuid: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }[tie] }
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** PostgreSQL does not accept the years 0 and 10000, in which nothing was changed. */
export function timeOrInfinity(time: string | undefined): string {
  const at = time === undefined ? -1 : Date.parse(time)
  if (at < 0) return '-infinity'
  return at > lastTime ? 'infinity' : new Date(at).toISOString()
}

export function dayOrNull(day: string | undefined): string | null {
  if (day === undefined) return null
  return day < '0001' ? '-infinity' : day
}

export function listStatement(name: string, sql: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text: sql, values, maxBytes })
}

/**
 * Plans of foreign keys and triggers live as long as the connection, so a full scan
 * that was planned for a small table would stay when the table has grown.
 */
export async function readByIndexes(tx: Tx): Promise<void> {
  await tx.execute({ text: 'set local enable_seqscan = off', values: [] })
}

/** With the default of 4 MiB, a push of 24 MiB would use temporary files and exceed the time limit on slow disks. */
export async function raiseWorkMemory(tx: Tx): Promise<void> {
  await tx.execute({ text: `set local work_mem = '32MB'`, values: [] })
}

/** Characters of the rows in one statement. A longer one might exceed five seconds on a busy database. */
export const sliceLength = 4_000_000

/** PostgreSQL underestimates rows that were just written, and would use nested loops. */
export async function compareAsSets(tx: Tx): Promise<void> {
  await Promise.all([readByIndexes(tx), tx.execute({ text: 'set local enable_nestloop = off', values: [] })])
}
