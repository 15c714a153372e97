import { tenantOf } from './follow.ts'
import { type Statement, commitAsynchronously } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

/** References of a tenant with a number of the year, such as F-2026-0042. */
export interface NumberSeries {
  readonly name: string
  /**
   * The lowest free numbers of the year (UTC) as a part of a statement, `next (tenant_id, year, number)`: `count` of them, or fewer
   * if fewer are free. Creations pass over numbers that others hold. One that fails gives its number back.
   */
  next(count?: string): string
  /** Adds free numbers, `wanted` at the least. */
  add(wanted: number): Statement
}

/** Other creations hold every free number, or there is none. The creation is tried again after more were added. */
export class NoFreeNumberError extends Error {
  readonly series: NumberSeries
  /** How many numbers the transaction may need. */
  readonly wanted: number

  constructor(series: NumberSeries, wanted = 1) {
    super(`no number is free for a new ${series.name}`)
    this.name = 'NoFreeNumberError'
    this.series = series
    this.wanted = wanted
  }
}

/** A series whose numbers are in `<schema>.free_number`, and its last one of each year in `<schema>.<counter>`. */
export function createNumberSeries({
  schema,
  name,
  counter,
}: {
  readonly schema: string
  readonly name: string
  readonly counter: string
}): NumberSeries {
  if (![schema, name, counter].every((part) => /^[a-z_]{1,40}$/.test(part))) throw new Error('not the name of a series')
  const thisYear = `extract(year from now() at time zone 'UTC')::integer`
  // The more a tenant has, the more are added: 16 at least, so that a small one keeps few.
  const text = `
    with counted as (
      insert into ${schema}.${counter} as counter (tenant_id, year, last_number)
      values ((select tenancy.tenant_id()), ${thisYear}, greatest(16, $1::integer))
      on conflict (tenant_id, year) do update
        set last_number = counter.last_number + greatest($1::integer, least(512, greatest(16, counter.last_number)))
      returning new.tenant_id, new.year, old.last_number as before, new.last_number as last
    )
    insert into ${schema}.free_number (tenant_id, series, year, number)
    select counted.tenant_id, '${name}', counted.year, added.number
    from counted
    cross join lateral generate_series(coalesce(counted.before, 0) + 1, counted.last) as added (number)`
  return {
    name,
    next: (count = '1') => `
      lowest as (
        -- free_number_pk
        select free.number
        from ${schema}.free_number free
        where free.series = '${name}' and free.year = ${thisYear}
        order by free.number
        limit ${count}
        for update skip locked
      ),
      next as (
        -- Not a join: PostgreSQL looks each number up, even if it has no statistics of the table yet.
        delete from ${schema}.free_number free
        where free.series = '${name}' and free.year = ${thisYear} and free.number = any (array(select lowest.number from lowest))
        returning free.tenant_id, free.year, free.number
      )`,
    add: (wanted) => ({ name: `${schema}_add_numbers_${name}`, text, values: [wanted] }),
  }
}

/** Times that a creation is tried before it fails: others may be quicker each time. */
const mostTries = 50

/**
 * The same database, where a write that finds no free number runs again after numbers were added. They are added in a
 * transaction of their own, so that no creation holds the tenant's counter while it commits.
 */
export function lendingNumbers(db: TenantDb): TenantDb {
  const adding = new Map<string, Promise<unknown>>()
  const add = async (tenant: TenantAssertion, { series, wanted }: NoFreeNumberError): Promise<void> => {
    const key = `${tenantOf(tenant.assertion)} ${series.name}`
    const running = adding.get(key)
    if (running !== undefined) {
      await running
      return
    }
    const added = db
      .write(
        tenant,
        async (tx) => await Promise.all([tx.execute(commitAsynchronously), tx.execute(series.add(wanted))]),
      )
      .finally(() => adding.delete(key))
    adding.set(key, added)
    await added
  }
  return {
    ...db,
    write: async (tenant, fn) => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await db.write(tenant, fn)
        } catch (error) {
          if (!(error instanceof NoFreeNumberError) || tries === mostTries) throw error
          await add(tenant, error)
        }
      }
    },
  }
}
