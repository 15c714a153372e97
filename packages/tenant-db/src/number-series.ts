import { tenantOf } from './follow.ts'
import { type Statement, commitAsynchronously } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

export interface NumberSeries {
  readonly name: string
  /**
   * A table expression `next (tenant_id, year, number)` (UTC year). Skips locked numbers; a rollback frees a number.
   */
  next(count?: string): string
  add(wanted: number): Statement
}

/** All numbers are taken or locked. Add numbers and retry. */
export class NoFreeNumberError extends Error {
  readonly series: NumberSeries
  readonly wanted: number

  constructor(series: NumberSeries, wanted = 1) {
    super(`no number is free for a new ${series.name}`)
    this.name = 'NoFreeNumberError'
    this.series = series
    this.wanted = wanted
  }
}

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
  // Tenants with more numbers get larger batches, at least 16.
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

/** Many, because concurrent transactions may take the new numbers. */
const mostTries = 50

/** Adds numbers in their own transaction and retries the write, so that no write locks the tenant's counter. */
export function withNumberSeries(db: TenantDb): TenantDb {
  const adding = new Map<string, Promise<unknown>>()
  // Keeps only the assertion: the first client may disconnect while others wait.
  const add = async ({ assertion }: TenantAssertion, { series, wanted }: NoFreeNumberError): Promise<void> => {
    const key = `${tenantOf(assertion)} ${series.name}`
    const running = adding.get(key)
    if (running !== undefined) {
      await running
      return
    }
    const added = db
      .write(
        { assertion },
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
