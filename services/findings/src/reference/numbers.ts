import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { statement } from '../sql/store.ts'

/** What has numbered references: `F-2026-0042` and `AP-2026-0042`. */
export type NumberSeries = 'finding' | 'action_plan'

/** Other creations hold every free number, or there is none. The creation is tried again after more were added. */
export class NoFreeNumberError extends Error {
  readonly series: NumberSeries
  /** How many numbers the transaction may need. */
  readonly wanted: number

  constructor(series: NumberSeries, wanted = 1) {
    super(`no number is free for a new ${series}`)
    this.name = 'NoFreeNumberError'
    this.series = series
    this.wanted = wanted
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
    const key = `${tenant.assertion.split('.')[2]} ${series}`
    const running = adding.get(key)
    if (running !== undefined) {
      await running
      return
    }
    const added = db
      .write(tenant, async (tx) => tx.execute(addNumbers[series]([wanted])))
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

/**
 * The lowest free number of the year (UTC) as a part of a statement, `next (tenant_id, year, number)`: no row where there is
 * none. Creations pass over numbers that others hold. One that fails gives its number back, because nothing was deleted.
 */
export const nextNumber = (series: NumberSeries): string => `
  lowest as (
    -- free_number_pk
    select free.year, free.number
    from findings.free_number free
    where free.series = '${series}' and free.year = extract(year from now() at time zone 'UTC')::integer
    order by free.number
    limit 1
    for update skip locked
  ),
  next as (
    delete from findings.free_number free
    using lowest
    where free.series = '${series}' and free.year = lowest.year and free.number = lowest.number
    returning free.tenant_id, free.year, free.number
  )`

// The more a tenant has, the more are added: 16 at least, so that a small one keeps few.
const addNumbersTo = (series: NumberSeries, counter: string) =>
  statement(
    `numbers_add_${series}`,
    `with counted as (
      insert into findings.${counter} as counter (tenant_id, year, last_number)
      values ((select tenancy.tenant_id()), extract(year from now() at time zone 'UTC')::integer, greatest(16, $1::integer))
      on conflict (tenant_id, year) do update
        set last_number = counter.last_number + greatest($1::integer, least(512, greatest(16, counter.last_number)))
      returning new.tenant_id, new.year, old.last_number as before, new.last_number as last
    )
    insert into findings.free_number (tenant_id, series, year, number)
    select counted.tenant_id, '${series}', counted.year, added.number
    from counted
    cross join lateral generate_series(coalesce(counted.before, 0) + 1, counted.last) as added (number)`,
  )
const addNumbers = {
  finding: addNumbersTo('finding', 'reference_counter'),
  action_plan: addNumbersTo('action_plan', 'action_plan_counter'),
}
