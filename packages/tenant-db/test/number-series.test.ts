import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { NoFreeNumberError, type TenantDb, createNumberSeries, withNumberSeries } from '../src/index.ts'
import { type TenantTables, createTenantTables } from './tenant-tables.ts'

let tables: TenantTables
let db: TenantDb
const series = createNumberSeries({ schema: 'probe', name: 'thing', counter: 'counter' })

beforeAll(async () => {
  tables = await createTenantTables()
  await tables.asOwner(`
    create table probe.counter (
      tenant_id uuid not null, year integer not null, last_number bigint not null,
      constraint counter_pk primary key (tenant_id, year));
    create table probe.free_number (
      tenant_id uuid not null, series text not null, year integer not null, number bigint not null,
      constraint free_number_pk primary key (tenant_id, series, year, number));
    call tenancy.protect_table('probe.counter', 'postern_findings', array['select', 'insert', 'update']);
    call tenancy.protect_table('probe.free_number', 'postern_findings', array['select', 'insert', 'update', 'delete'])`)
  db = withNumberSeries(tables.open({ maxConnections: 8 }))
})
afterAll(async () => await tables[Symbol.asyncDispose]())

type Hold = () => Promise<void>

/** Takes numbers in a transaction that calls `hold` before it ends. */
async function take(tenantId: string, count: number, hold: Hold = async () => undefined): Promise<number[]> {
  return await db.write(tables.mint(tenantId), async (tx) => {
    const text = `with ${series.next('$1::integer')} select next.number from next order by next.number`
    const rows = await tx.query<{ number: string }>({ text, values: [count] })
    if (rows.length < count) throw new NoFreeNumberError(series, count)
    await hold()
    return rows.map(({ number }) => Number(number))
  })
}

test('the lowest numbers are taken first, several at once, and never twice', async () => {
  const tenant = randomUUID()
  expect(await take(tenant, 3)).toEqual([1, 2, 3])
  const taken = await Promise.all(Array.from({ length: 40 }, async () => await take(tenant, 2)))
  const all = taken.flat().toSorted((a, b) => a - b)
  expect(all).toEqual(Array.from({ length: 80 }, (_none, at) => at + 4))
  // Another tenant starts at 1.
  expect(await take(randomUUID(), 1)).toEqual([1])
})

test('transactions do not wait for each other’s numbers, and a rollback frees them', async () => {
  const tenant = randomUUID()
  const [held, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const failing = take(tenant, 16, async () => {
    held.resolve()
    await mayEnd.promise
    throw new Error('this creation fails')
  })
  await held.promise
  expect(await take(tenant, 1)).toEqual([17])
  mayEnd.resolve()
  await expect(failing).rejects.toThrow('this creation fails')
  expect(await take(tenant, 1)).toEqual([1])
})

test('one transaction can take more numbers than one addition', async () => {
  const numbers = await take(randomUUID(), 600)
  expect(numbers).toHaveLength(600)
})

test('numbers are added with an asynchronous commit', async () => {
  const settings: string[] = []
  const watched = withNumberSeries({
    ...db,
    write: async (tenant, work) =>
      await tables
        .open({
          connectionString: `${tables.database.url('findings')}?options=${encodeURIComponent('-c synchronous_commit=on')}`,
        })
        .write(tenant, async (tx) => {
          const result = await work(tx)
          const text = `select current_setting('synchronous_commit') as setting`
          const [row] = await tx.query<{ setting: string }>({ text, values: [] })
          settings.push(row?.setting ?? '')
          return result
        }),
  })
  let isFirst = true
  await watched.write(tables.mint(randomUUID()), async () => {
    if (!isFirst) return
    isFirst = false
    throw new NoFreeNumberError(series)
  })
  expect(settings).toEqual(['off', 'on'])
})
