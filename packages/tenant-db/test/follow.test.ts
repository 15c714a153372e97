import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TenantDb, Tx } from '../src/index.ts'
import { sqlError } from '../src/index.ts'
import { type TenantTables, addParent, createTenantTables, sql } from './tenant-tables.ts'

let tables: TenantTables
let db: TenantDb
const [tenantId, other] = [randomUUID(), randomUUID()]

beforeAll(async () => {
  tables = await createTenantTables()
  db = tables.open({ maxConnections: 4 })
  for (const name of ['a', 'b', 'c', 'd', 'e']) await addParent(db, tables.mint(tenantId), tenantId, name)
  await addParent(db, tables.mint(other), other, 'theirs')
})
afterAll(async () => await tables[Symbol.asyncDispose]())

const listNames = async (tx: Tx): Promise<string[]> => {
  const rows = await tx.query<{ name: string }>(sql('select name from probe.parent where name <> $1 order by name', ''))
  return rows.map(({ name }) => name)
}

async function collect(batches: AsyncIterable<readonly string[]>): Promise<(readonly string[])[]> {
  const all: (readonly string[])[] = []
  for await (const batch of batches) all.push(batch)
  return all
}

const write = async (tx: Tx) => [String(await tx.execute(sql('delete from probe.parent')))]

const kindOf = (error: unknown): string => sqlError(error).kind

test('a followed list needs a valid assertion and contains no rows of another tenant', async () => {
  for (const forged of [tables.mint(tenantId, { lifetimeSeconds: -1 }), { assertion: '' }]) {
    expect(await collect(db.follow(forged, listNames, 2)).catch(kindOf)).toBe('assertion')
  }
  expect(await collect(db.follow(tables.mint(other), listNames, 2))).toEqual([['theirs']])
})

test('a slow reader gets the whole list from one snapshot, even after the assertion has expired', async () => {
  const tenant = tables.mint(tenantId, { lifetimeSeconds: 2 })
  const seen: string[] = []
  for await (const batch of db.follow(tenant, listNames, 2)) {
    if (seen.length === 0) {
      await addParent(db, tables.mint(tenantId), tenantId, 'f')
      // Control: the assertion is rejected from then on.
      await expect
        .poll(async () => await db.read(tenant, listNames).catch(kindOf), { timeout: 30_000 })
        .toBe('assertion')
    }
    seen.push(...batch)
  }
  expect(seen).toEqual(['a', 'b', 'c', 'd', 'e'])
})

test('a statement that changes data is rejected', async () => {
  await expect(collect(db.follow(tables.mint(tenantId), write, 2))).rejects.toThrow(/only one statement/)
})

test('an abandoned list is closed, and lists beyond a quarter of the connections wait', async () => {
  const first = db.follow(tables.mint(other), listNames, 1)[Symbol.asyncIterator]()
  await first.next()
  const second = collect(db.follow(tables.mint(other), listNames, 1))
  const order: string[] = []
  void second.then(() => order.push('second'))
  // Other work continues meanwhile.
  expect(await db.read(tables.mint(other), listNames)).toEqual(['theirs'])
  order.push('first')
  await first.return?.()
  expect((await second).flat()).toEqual(['theirs'])
  expect(order).toEqual(['first', 'second'])
  await expect.poll(() => db.stats().total - db.stats().idle, { timeout: 30_000 }).toBe(0)
})

test('a list that is followed is among the connections of its tenant, so that the reserve stays for others', async () => {
  const eight = tables.open({ maxConnections: 8 })
  const list = eight.follow(tables.mint(tenantId), listNames, 1)[Symbol.asyncIterator]()
  await list.next()
  const end = Promise.withResolvers<void>()
  let held = 0
  const writes = Array.from({ length: 7 }, async () => {
    await eight.write(tables.mint(tenantId), async () => {
      held += 1
      await end.promise
    })
  })
  await expect.poll(() => eight.stats().waiting, { timeout: 30_000 }).toBe(2)
  const both = Promise.withResolvers<void>()
  let begun = 0
  const others = [other, randomUUID()].map(async (id) => {
    await eight.write(tables.mint(id), async () => {
      begun += 1
      if (begun === 2) both.resolve()
      await both.promise
    })
  })
  await Promise.all(others)
  await expect.poll(() => held, { timeout: 30_000 }).toBe(5)
  end.resolve()
  await list.return?.()
  await Promise.all(writes)
})
