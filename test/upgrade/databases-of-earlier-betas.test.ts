import { prepareDatabase } from '@postern/installation'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'

let database: TestDatabase
let owner: Client

beforeAll(async () => {
  database = await createTestDatabase()
  owner = new Client({ connectionString: database.url('superuser') })
  await owner.connect()
})

afterAll(async () => {
  await owner?.end()
  await database?.drop()
})

const prepare = async () =>
  await prepareDatabase({
    database: database.name,
    migratorUrl: database.url('migrator'),
    assertionKeys: database.assertionKeys,
  })

/**
 * Returns everything that a migration could change: applied migrations, tables with columns and grants, and secrets.
 */
async function readState(): Promise<unknown> {
  const statements = [
    'select * from postern_meta.migration order by schema_name, name',
    `select c.oid::regclass::text as name, c.relacl::text, a.attname, a.attnum
       from pg_class as c
       join pg_attribute as a on a.attrelid = c.oid
      where c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
      order by c.oid, a.attnum`,
    'select key_id, not_after from tenancy.assertion_secret order by key_id',
  ]
  const state: unknown[] = []
  for (const statement of statements) state.push((await owner.query(statement)).rows)
  return state
}

test('a database of this release is accepted', async () => {
  expect((await prepare()).applied).toEqual([])
})

test('a database of a release before 1.0.0-beta.2 is rejected and stays unchanged', async () => {
  // The names of 1.0.0-beta.1.
  await owner.query(
    `update postern_meta.migration
        set name = case schema_name when 'tenancy' then '000001_tenancy.sql' else '000001_keys.sql' end
      where schema_name in ('tenancy', 'keys') and name = '000001_create_schema.sql'`,
  )
  const before = await readState()
  await expect(prepare()).rejects.toThrow(
    'the database comes from a release before 1.0.0-beta.2, which cannot be upgraded. Nothing was changed. ' +
      'Use a new database, as UPGRADING.md describes',
  )
  expect(await readState()).toEqual(before)
})
