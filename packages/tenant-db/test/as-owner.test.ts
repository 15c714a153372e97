import type { TestDatabase } from '@postern/local-stack/testing'
import { createTestDatabase } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asOwner } from '../src/index.ts'
import { connect } from '../src/connect.ts'
import { openClient } from './tenant-tables.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => await database.drop())

test('objects created as the owner belong to it, and values are sent separately', async () => {
  const found: unknown[] = []
  await asOwner(database.url('migrator'), 'a queue', async (run) => {
    await run('create schema set_up; create table set_up.item (id integer)')
    await run('insert into set_up.item values ($1), ($2)', [1, 2])
    found.push(...(await run('select id from set_up.item order by id')).rows)
  })
  expect(found).toEqual([{ id: 1 }, { id: 2 }])
  await using connection = await openClient(database.url('superuser'))
  const { rows } = await connection.client.query("select tableowner from pg_tables where schemaname = 'set_up'")
  expect(rows).toEqual([{ tableowner: 'postern_owner' }])
})

test('calls with one name run one after the other, and another name does not wait', async () => {
  const order: string[] = []
  const go = Promise.withResolvers<void>()
  const isIn = Promise.withResolvers<void>()
  const url = database.url('migrator')
  const first = asOwner(url, 'the same', async () => {
    isIn.resolve()
    await go.promise
    order.push('first')
  })
  await isIn.promise
  const second = asOwner(url, 'the same', async () => void order.push('second'))
  await asOwner(url, 'another', async () => void order.push('another'))
  await using connection = await openClient(database.url('superuser'))
  const waiting = async (): Promise<unknown> =>
    (await connection.client.query("select from pg_locks where locktype = 'advisory' and not granted")).rowCount
  await expect.poll(waiting).toBe(1)
  go.resolve()
  await Promise.all([first, second])
  expect(order).toEqual(['another', 'first', 'second'])
})

test('an administration connection is named, and losing it does not end the process', async () => {
  await using admin = await openClient(database.url('superuser'))
  await using connection = await connect(database.url('migrator'))
  const { rows } = await connection.client.query<{ pid: number; name: string }>(
    "select pg_backend_pid() as pid, current_setting('application_name') as name",
  )
  expect(rows[0]?.name).toBe('postern-admin')
  const ended = new Promise<void>((resolve) => void connection.client.once('end', resolve))
  await admin.client.query('select pg_terminate_backend($1)', [rows[0]?.pid])
  await ended
})
