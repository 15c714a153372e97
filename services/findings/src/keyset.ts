import type { Statement } from '@postern/tenant-db'
import { z } from 'zod'

/** Where a page begins: behind the row with this sort value and id. */
export const keySchema = z.strictObject({
  value: z.union([z.iso.datetime({ precision: 3 }), z.iso.date(), z.int().min(1).max(4)]),
  id: z.uuid(),
})
export type Key = z.infer<typeof keySchema>

/** One order of a list. Its column is in an index behind tenant_id and before id. */
export interface Order<Item> {
  readonly column: string
  readonly type: 'timestamptz' | 'date' | 'smallint'
  readonly direction: 'asc' | 'desc'
  valueOf(item: Item): string | number
}

/** Where a page begins, and how many rows it has at most. */
export interface PageBounds<Sort extends string> {
  readonly sort: Sort
  readonly after: Key | undefined
  readonly limit: number
}

export interface KeysetList<Sort extends string, Item> {
  /**
   * The statement of a page. `values` are those of the filter, always all of them. Only where `isPlain`, that is, no
   * filter but the cheap ones is used, it is prepared by name; else PostgreSQL plans it for the values it has.
   */
  page(bounds: PageBounds<Sort>, values: readonly unknown[], isPlain: boolean): Statement
  /** Where the page behind an item begins. */
  keyOf(item: Item, sort: Sort): Key
  /** Whether a key, which comes from a client, can belong to the sort. */
  isKey(key: Key, sort: Sort): boolean
}

/**
 * Makes the statements of a list, one a sort. Each begins behind a key (the first page behind infinity), so that even a
 * generic plan enters the sort's index where the page begins and stops after the page.
 */
export function keysetList<Sort extends string, Item extends { readonly id: string }>(list: {
  /** Prefix of the names of the statements. */
  readonly name: string
  /** `select … from …`; the table is called `t`. */
  readonly select: string
  /** The filter over $1 to $filterValues. */
  readonly where: string
  readonly filterValues: number
  readonly orders: Readonly<Record<Sort, Order<Item>>>
}): KeysetList<Sort, Item> {
  const texts = new Map<string, string>()
  for (const sort in list.orders) texts.set(sort, textOf(list, list.orders[sort]))
  return {
    page: ({ sort, after, limit }, values, isPlain) => {
      const { value, id } = after ?? beginnings[list.orders[sort].direction](list.orders[sort].type)
      return {
        text: texts.get(sort) ?? '',
        values: [...values, value, id, limit],
        ...(isPlain ? { name: `${list.name}_${sort}` } : {}),
      }
    },
    keyOf: (item, sort) => ({ value: list.orders[sort].valueOf(item), id: item.id }),
    isKey: (key, sort) => keyValues[list.orders[sort].type].safeParse(key.value).success,
  }
}

function textOf<Item>(
  { select, where, filterValues: n }: { select: string; where: string; filterValues: number },
  { column, type, direction }: Order<Item>,
): string {
  const [comparison, suffix] = direction === 'asc' ? ['>', ''] : ['<', ' desc']
  return `${select}
    where ${where}
      and (t.${column}, t.id) ${comparison} ($${n + 1}::${type}, $${n + 2}::uuid)
    order by t.${column}${suffix}, t.id${suffix}
    limit $${n + 3}`
}

const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Before everything, in each direction. */
const beginnings = {
  asc: (type: string) => ({ value: type === 'smallint' ? -32_768 : '-infinity', id: firstId }),
  desc: (type: string) => ({ value: type === 'smallint' ? 32_767 : 'infinity', id: lastId }),
}

// PostgreSQL reads no year 0.
const keyValues = {
  timestamptz: z.iso.datetime({ precision: 3 }).refine((text) => text > '0001'),
  date: z.iso.date().refine((text) => text > '0001'),
  smallint: z.int(),
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** PostgreSQL reads no year 0 and no year 10000; nothing was changed that early or will be that late. */
export function timeOrInfinity(time: Date | undefined): string {
  if (time === undefined || time.getTime() < 0) return '-infinity'
  return time.getTime() > lastTime ? 'infinity' : time.toISOString()
}

/** A date that PostgreSQL reads, or null for none. */
export function dateOrNull(date: string | undefined): string | null {
  if (date === undefined) return null
  return date < '0001' ? '-infinity' : date
}

/** The text as a pattern that finds it anywhere, in any case: what LIKE would read as a wildcard stands for itself. */
export function patternOf(text: string | undefined): string | null {
  return text === undefined ? null : `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
}

/** A statement that is prepared once a connection. */
export function statement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values })
}
