import type { ResourceAddress } from '@postern/contracts'
import type { Statement } from '@postern/tenant-db'
import { z } from 'zod'

const sortValue = z.union([z.iso.datetime({ precision: 3 }), z.iso.date(), z.int().min(1).max(4)])

/** Where a page begins: behind the row with these values of the sort's columns and this id. */
const keySchema = z.strictObject({ values: z.array(sortValue).min(1).max(2), id: z.uuid() })
export type Key = z.infer<typeof keySchema>

interface SortColumn {
  readonly column: string
  readonly type: 'timestamptz' | 'date' | 'smallint'
}

/** One order of a list. Its columns are in an index behind tenant_id and before id, and all go in one direction. */
export interface Order<Item> {
  readonly columns: readonly SortColumn[]
  readonly direction: 'asc' | 'desc'
  valuesOf(item: Item): (string | number)[]
}

/** Where a page begins, and how many rows it has at most. */
export interface PageBounds<Sort extends string> {
  readonly sort: Sort
  readonly after: Key | undefined
  readonly limit: number
}

/** A condition of a filter, and the values of its parameters. */
export interface Condition {
  readonly values: readonly unknown[]
  /** The condition with its parameters by name: `$1`, `$2` … */
  sql(...parameters: readonly string[]): string
}

/** The condition where a value asks for it; nothing where it is undefined. */
export function when(value: unknown, sql: (parameter: string) => string): Condition[] {
  return value === undefined ? [] : [{ values: [value], sql: (parameter = '') => sql(parameter) }]
}

/** Conditions as SQL, with parameters from `$first` on, and their values. */
export function written(conditions: readonly Condition[], first = 1): { text: string; values: readonly unknown[] } {
  let next = first
  const texts = conditions.map(({ values, sql }) => sql(...values.map(() => `$${next++}`)))
  return { text: texts.length === 0 ? 'true' : texts.join(' and '), values: conditions.flatMap(({ values }) => values) }
}

export interface KeysetList<Sort extends string, Item> {
  /** The statement of a page of what the conditions leave. `leading` are values that `select` uses, from `$1` on. */
  page(bounds: PageBounds<Sort>, conditions: readonly Condition[], leading?: readonly unknown[]): Statement
  /** Where the page behind an item begins. */
  keyOf(item: Item, sort: Sort): Key
  /** A key, which comes from a client, that can belong to the sort. */
  keySchema(sort: Sort): z.ZodType<Key>
}

/**
 * Makes the statements of a list. Each begins behind a key (the first page behind infinity) and enters the sort's index
 * there. It holds the conditions that are used and no others, and PostgreSQL plans it for its values every time; a page
 * without any is prepared by name and planned once for all keys and limits of a size. The size is written out: of a limit that
 * is a parameter PostgreSQL knows nothing, takes it for a tenth of all rows, and would sort them. The limit goes around it, so
 * that no row is read beyond it; what is in the order of the inner one stays so.
 */
export function keysetList<Sort extends string, Item extends { readonly id: string }>(list: {
  /** Prefix of the names of the statements. */
  readonly name: string
  /** `select … from …`; the table is called `t`. */
  readonly select: string
  readonly orders: Readonly<Record<Sort, Order<Item>>>
}): KeysetList<Sort, Item> {
  const { name, select, orders } = list
  const bare = new Map<string, string>()
  // Once a sort: to make a schema takes longer than to make the statement.
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
        const where = written(conditions, leading.length + 1)
        const used = leading.length + where.values.length
        const text = textOf(sort, where.text, used, `$${used + values.length + 2}`)
        return { text, values: [...leading, ...where.values, ...values, id, limit], maxBytes: mostBytes }
      }
      const key = `${name}_${sort}_${size}`
      const text =
        bare.get(key) ??
        `select * from (${textOf(sort, 'true', leading.length, String(size))}) page limit $${leading.length + values.length + 2}`
      bare.set(key, text)
      return { name: key, text, values: [...leading, ...values, id, limit], plannedOnce: true, maxBytes: mostBytes }
    },
    keyOf: (item, sort) => ({ values: orders[sort].valuesOf(item), id: item.id }),
    keySchema: (sort) => {
      const schema = schemas.get(sort) ?? keySchema.refine(({ values }) => fits(values, orders[sort].columns))
      schemas.set(sort, schema)
      return schema
    },
  }
}

function fits(values: Key['values'], columns: readonly SortColumn[]): boolean {
  return (
    columns.length === values.length && columns.every(({ type }, at) => keyValues[type].safeParse(values[at]).success)
  )
}

/** Sizes that pages are planned for, one more than what most ask for; the largest is the largest page. */
const sizes: readonly number[] = [51, 101, 251, 501, 1001]

const firstId = '00000000-0000-0000-0000-000000000000'
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Before everything, in the direction of the order. */
function beginningOf<Item>({ columns, direction }: Order<Item>): { values: (string | number)[]; id: string } {
  const isUp = direction === 'asc'
  return {
    values: columns.map(({ type }) =>
      type === 'smallint' ? (isUp ? -32_768 : 32_767) : isUp ? '-infinity' : 'infinity',
    ),
    id: isUp ? firstId : lastId,
  }
}

// PostgreSQL reads no year 0.
const keyValues = {
  timestamptz: z.iso.datetime({ precision: 3 }).refine((text) => text > '0001'),
  date: z.iso.date().refine((text) => text > '0001'),
  smallint: z.int(),
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** PostgreSQL reads no year 0 and no year 10000; nothing was changed that early or will be that late. */
export function timeOf(time: Date | undefined): string | undefined {
  if (time === undefined) return undefined
  if (time.getTime() < 0) return '-infinity'
  return time.getTime() > lastTime ? 'infinity' : time.toISOString()
}

/** A date as PostgreSQL reads it, which knows no year 0; undefined for none. */
export function dateOf(date: string | undefined): string | undefined {
  return date === undefined || date >= '0001' ? date : '-infinity'
}

/** The text as a pattern that finds it anywhere, in any case: what LIKE would read as a wildcard stands for itself. */
export function patternOf(text: string | undefined): string | undefined {
  return text === undefined ? undefined : `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
}

/** What finds the rows whose owner has one of some ids, e-mail addresses or names, in any case. */
export function ownedBy(names: string): string {
  const lowered = `array(select lower(named) from unnest(${names}::text[]) as named)`
  return `(t.owner ->> 'person_id' = any(${lowered}) or lower(t.owner ->> 'email') = any(${lowered})
    or lower(t.owner ->> 'name') = any(${lowered}))`
}

/** What finds the rows that belong to one of some findings: finding_pk, finding_reference_unique, finding_external_id_unique. */
export function ofFindings(addresses: readonly ResourceAddress[] | undefined): Condition[] {
  if (addresses === undefined) return []
  return [
    {
      values: [
        addresses.flatMap((address) => (address.by === 'id' ? [address.id] : [])),
        addresses.flatMap((address) => (address.by === 'reference' ? [address.reference] : [])),
        addresses.flatMap((address) => (address.by === 'external-id' ? [address.externalId] : [])),
      ],
      sql: (ids, references, externalIds) =>
        `t.finding_id = any(array(
          select f.id from findings.finding f where f.id = any(${ids}::uuid[])
          union all select f.id from findings.finding f where f.reference = any(${references}::text[])
          union all select f.id from findings.finding f where f.external_id = any(${externalIds}::text[])))`,
    },
  ]
}

/**
 * Bytes that the rows of one statement may have: a finding, or an entry of the log, is as long as its authors write it, some
 * megabytes at the most, and a thousand of them would fit into no memory. A page is then shorter, a part of an export smaller.
 */
export const mostBytes = 4 * 1024 * 1024

/** A statement that brings many rows, prepared once a connection. */
export function listStatement(name: string, text: string): (values: readonly unknown[]) => Statement {
  return (values) => ({ name, text, values, maxBytes: mostBytes })
}
