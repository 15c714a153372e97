import type { Statement } from '@postern/tenant-db'
import { z } from 'zod'
import { type Condition, joinConditions } from './condition/store.ts'

const sortValue = z.union([z.iso.datetime({ precision: 3 }), z.iso.date(), z.int().min(1).max(4)])

const keySchema = z.strictObject({ values: z.array(sortValue).min(1).max(2), id: z.uuid() })
export type Key = z.infer<typeof keySchema>

interface SortColumn {
  readonly column: string
  readonly type: 'timestamptz' | 'date' | 'smallint'
}

/** An index has these columns between tenant_id and id, in the same direction. */
export interface Order<Item> {
  readonly columns: readonly SortColumn[]
  readonly direction: 'asc' | 'desc'
  valuesOf(item: Item): (string | number)[]
}

export interface PageBounds<Sort extends string> {
  readonly sort: Sort
  readonly after: Key | undefined
  readonly limit: number
}

export interface KeysetList<Sort extends string, Item> {
  /** `leading` are the values that `select` uses, from `$1` on. */
  page(bounds: PageBounds<Sort>, conditions: readonly Condition[], leading?: readonly unknown[]): Statement
  keyOf(item: Item, sort: Sort): Key
  keySchema(sort: Sort): z.ZodType<Key>
}

/**
 * Unfiltered pages are planned once per size, which is a literal: PostgreSQL would estimate a parameter as a tenth of
 * all rows.
 */
export function keysetList<Sort extends string, Item extends { readonly id: string }>(list: {
  readonly name: string
  /** `select … from …`, with `t` as the alias of the table. */
  readonly select: string
  readonly orders: Readonly<Record<Sort, Order<Item>>>
}): KeysetList<Sort, Item> {
  const { name, select, orders } = list
  const unfilteredTexts = new Map<string, string>()
  // Creating a schema is slow.
  const schemas = new Map<Sort, z.ZodType<Key>>()
  const textOf = (sort: Sort, where: string, used: number, limit: string): string => {
    const { columns, direction } = orders[sort]
    const [comparison, suffix] = direction === 'asc' ? ['>', ''] : ['<', ' desc']
    const sorted = [...columns.map(({ column }) => `t.${column}`), 't.id']
    const types = [...columns.map(({ type }) => type), 'uuid']
    return `${select}
      where ${where}
        and (${sorted.join(', ')}) ${comparison} (${types.map((type, at) => `$${used + at + 1}::${type}`).join(', ')})
      order by ${sorted.map((expression) => expression + suffix).join(', ')}
      limit ${limit}`
  }
  return {
    page: ({ sort, after, limit }, conditions, leading = []) => {
      const { values, id } = after ?? beginningOf(orders[sort])
      const size = sizes.find((most) => limit <= most)
      if (conditions.length > 0 || size === undefined) {
        const where = joinConditions(conditions, leading.length + 1)
        const used = leading.length + where.values.length
        const text = textOf(sort, where.text, used, `$${used + values.length + 2}`)
        return { text, values: [...leading, ...where.values, ...values, id, limit], maxBytes: maxPageBytes }
      }
      const key = `${name}_${sort}_${size}`
      const text =
        unfilteredTexts.get(key) ??
        `select * from (${textOf(sort, 'true', leading.length, String(size))}) page limit $${leading.length + values.length + 2}`
      unfilteredTexts.set(key, text)
      return { name: key, text, values: [...leading, ...values, id, limit], plannedOnce: true, maxBytes: maxPageBytes }
    },
    keyOf: (item, sort) => ({ values: orders[sort].valuesOf(item), id: item.id }),
    keySchema: (sort) => {
      const schema = schemas.get(sort) ?? keySchema.refine(({ values }) => matchesColumns(values, orders[sort].columns))
      schemas.set(sort, schema)
      return schema
    },
  }
}

function matchesColumns(values: Key['values'], columns: readonly SortColumn[]): boolean {
  return (
    columns.length === values.length && columns.every(({ type }, at) => keyValues[type].safeParse(values[at]).success)
  )
}

/** Common limits plus one, because a page reads one more row. */
const sizes: readonly number[] = [51, 101, 251, 501, 1001]

const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

function beginningOf<Item>({ columns, direction }: Order<Item>): { values: (string | number)[]; id: string } {
  const isUp = direction === 'asc'
  return {
    values: columns.map(({ type }) =>
      type === 'smallint' ? (isUp ? -32_768 : 32_767) : isUp ? '-infinity' : 'infinity',
    ),
    id: isUp ? firstId : lastId,
  }
}

// PostgreSQL has no year 0.
const keyValues = {
  timestamptz: z.iso.datetime({ precision: 3 }).refine((text) => text > '0001'),
  date: z.iso.date().refine((text) => text > '0001'),
  smallint: z.int(),
}

/** One row can have megabytes. Longer pages are shortened. */
export const maxPageBytes = 4 * 1024 * 1024

/** At most `maxPageBytes`. */
export function listStatement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values, maxBytes: maxPageBytes })
}
