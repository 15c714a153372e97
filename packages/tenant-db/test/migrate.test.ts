import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestDatabase } from '@postern/local-stack/testing'
import { createTestDatabase } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { MigrationRefusedError, ensureDatabase, migrate, tenancyMigrations } from '../src/index.ts'
import { openClient } from './tenant-tables.ts'

let database: TestDatabase
let directory: string

beforeAll(async () => {
  database = await createTestDatabase()
})

afterAll(async () => {
  await database.drop()
})

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'postern-migrations-'))
})

afterEach(async () => {
  await rm(directory, { recursive: true })
})

const put = async (name: string, text: string): Promise<void> => await writeFile(join(directory, name), text)

const run = async (schema: string): Promise<string[]> =>
  (await migrate({ connectionString: database.url('migrator'), schema, directory })).applied

async function query(text: string): Promise<unknown[]> {
  await using connection = await openClient(database.url('superuser'))
  return (await connection.client.query(text)).rows
}

describe('a rejected migration', () => {
  test('an edited released file: nothing after it is applied', async () => {
    await put('000001_create_a.sql', 'create schema edited;')
    await run('edited')
    await put('000001_create_a.sql', 'create schema edited; create table edited.more (id uuid);')
    await put('000002_create_b.sql', 'create table edited.b (id uuid);')
    await expect(run('edited')).rejects.toThrow(MigrationRefusedError)
    await expect(run('edited')).rejects.toMatchObject({ name: 'MigrationRefusedError' })
    await expect(run('edited')).rejects.toThrow('000001_create_a.sql was changed after it was applied')
    expect(await query("select to_regclass('edited.b') as b")).toEqual([{ b: null }])
  })

  test('a database of a newer release', async () => {
    await put('000001_create_a.sql', 'create schema newer;')
    await put('000002_create_b.sql', 'create table newer.b (id uuid);')
    await put('000003_create_c.sql', 'create table newer.c (id uuid);')
    await run('newer')
    for (const name of ['000002_create_b.sql', '000003_create_c.sql']) await rm(join(directory, name))
    await expect(run('newer')).rejects.toThrow('belongs to a newer one: 000002_create_b.sql, 000003_create_c.sql')
  })

  test('a database of an older release, which stays unchanged', async () => {
    await put('000001_create_old.sql', 'create schema old;')
    await put('000002_fill_old.sql', 'create table old.a (id uuid);')
    await run('old')
    const applied = await query("select name from postern_meta.migration where schema_name = 'old' order by name")
    for (const name of ['000001_create_old.sql', '000002_fill_old.sql']) await rm(join(directory, name))
    await put('000001_create_schema.sql', 'create table old.b (id uuid);')
    await put('000003_create_c.sql', 'create table old.c (id uuid);')
    await expect(run('old')).rejects.toThrow(
      'the database comes from a release before 1.0.0-beta.2, which cannot be upgraded. Nothing was changed. ' +
        'Use a new database, as UPGRADING.md describes',
    )
    expect(await query("select name from postern_meta.migration where schema_name = 'old' order by name")).toEqual(
      applied,
    )
    expect(await query("select relname from pg_class where relnamespace = 'old'::regnamespace")).toEqual([
      { relname: 'a' },
    ])
  })

  test('a file whose number is below the last one applied', async () => {
    await put('000002_create_b.sql', 'create schema late;')
    await run('late')
    await put('000001_create_a.sql', 'create table late.a (id uuid);')
    await expect(run('late')).rejects.toThrow('Give it a higher number')
  })

  test('two files with one number, and a name without a number', async () => {
    await put('000001_create_a.sql', 'select 1;')
    await put('000001_create_b.sql', 'select 1;')
    await expect(run('twice')).rejects.toThrow('000001_create_b.sql has the same number as 000001_create_a.sql')
    await rm(join(directory, '000001_create_b.sql'))
    await put('create.sql', 'select 1;')
    await expect(run('twice')).rejects.toThrow('not named like 000001_verb_noun.sql')
  })

  test.each([
    'create.sql',
    '00001_create_a.sql',
    '0000001_create_a.sql',
    '000001-create-a.sql',
    '000001_Create_a.sql',
    '000001_.sql',
    '000001_create_.sql',
    '000001_create__a.sql',
    '000001_create_a.old.sql',
    '000001_create_a.sql.sql',
    'x000001_create_a.sql',
  ])('a file that is named %s', async (name) => {
    await put(name, 'select 1;')
    await expect(run('named')).rejects.toThrow(`${name} is not named like 000001_verb_noun.sql`)
  })

  test.each(['begin;', 'select 1;\n  rollback ;', 'START  TRANSACTION;', 'select 1;\nstart transaction\t;'])(
    'a file that begins or ends a transaction: %j',
    async (text) => {
      await put('000001_create_a.sql', text)
      await expect(run('controls')).rejects.toThrow('000001_create_a.sql contains begin or commit')
    },
  )

  test('a file that ends the transaction it runs in', async () => {
    await put('000001_create_a.sql', 'create schema ends;\n  COMMIT;\ncreate table ends.a (id uuid);')
    await expect(run('ends')).rejects.toThrow('contains begin or commit')
    expect(await query("select from pg_namespace where nspname = 'ends'")).toEqual([])
  })
})

describe('a migration that fails', () => {
  test('is rolled back, keeps earlier ones, and can be corrected and run again', async () => {
    await put('000001_create_a.sql', 'create schema halves;')
    await put('000002_create_b.sql', 'create table halves.b (id uuid); select 1 / 0;')
    await expect(run('halves')).rejects.toMatchObject({
      message: 'migration 000002_create_b.sql of halves failed and was rolled back',
      cause: { code: '22012' },
    })
    expect(await query("select to_regclass('halves.b') as b, to_regnamespace('halves')::text as schema")).toEqual([
      { b: null, schema: 'halves' },
    ])
    await put('000002_create_b.sql', 'create table halves.b (id uuid);')
    expect(await run('halves')).toEqual(['000002_create_b.sql'])
  })

  test('times out on a locked table instead of blocking everyone', async () => {
    await put('000001_create_a.sql', 'create schema busy; create table busy.a (id uuid);')
    await run('busy')
    await using holder = await openClient(database.url('superuser'))
    await holder.client.query('begin; select from busy.a')
    await put('000002_widen_a.sql', 'alter table busy.a add column more integer;')
    await expect(run('busy')).rejects.toMatchObject({ cause: { code: '55P03' } })
    await holder.client.query('rollback')
    expect(await run('busy')).toEqual(['000002_widen_a.sql'])
  })
})

describe('migrate', () => {
  test('applies each file once, in the order of the numbers, as the owner', async () => {
    await put('000010_create_b.sql', 'create table ordered.b as select * from ordered.a;')
    await put('000009_create_a.sql', 'create schema ordered; create table ordered.a (id uuid);')
    await put('README.md', 'not a migration')
    expect(await run('ordered')).toEqual(['000009_create_a.sql', '000010_create_b.sql'])
    expect(await run('ordered')).toEqual([])
    await put('000011_create_c.sql', 'create table ordered.c (id uuid);')
    expect(await run('ordered')).toEqual(['000011_create_c.sql'])
    expect(await query("select distinct tableowner from pg_tables where schemaname = 'ordered'")).toEqual([
      { tableowner: 'postern_owner' },
    ])
  })

  test('accepts names of one or several words, and words that only resemble the end of a transaction', async () => {
    await put('000001_begin.sql', 'create schema words; -- no commit;')
    await put('000002_add_a2_b.sql', 'create table words.commit (id uuid);')
    expect(await run('words')).toEqual(['000001_begin.sql', '000002_add_a2_b.sql'])
  })

  test('has an empty search path', async () => {
    await put('000001_create_a.sql', 'create table nameless (id uuid);')
    await expect(run('nameless')).rejects.toMatchObject({ cause: { code: '3F000' } })
  })

  test('creates its bookkeeping in an empty database', async () => {
    const name = `fresh_${process.pid}_${Date.now()}`
    await ensureDatabase(database.url('superuser'), name)
    const url = new URL(database.url('migrator'))
    url.pathname = `/${name}`
    await put('000001_create_a.sql', 'create schema a;')
    expect(await migrate({ connectionString: url.href, schema: 'a', directory })).toEqual({
      applied: ['000001_create_a.sql'],
    })
    await query(`drop database ${name} with (force)`)
  })

  test('treats a file with Windows line ends as the same file', async () => {
    await put('000001_create_a.sql', 'create schema endings;\ncreate table endings.a (id uuid);\n')
    await run('endings')
    await put('000001_create_a.sql', 'create schema endings;\r\ncreate table endings.a (id uuid);\r\n')
    expect(await run('endings')).toEqual([])
  })

  test('applies each file once even if five processes start at once', async () => {
    await put('000001_create_a.sql', 'create schema raced; create table raced.a (id integer);')
    await put('000002_fill_a.sql', 'insert into raced.a values (1);')
    const applied = await Promise.all(Array.from({ length: 5 }, () => run('raced')))
    expect(applied.flat().toSorted()).toEqual(['000001_create_a.sql', '000002_fill_a.sql'])
    expect(await query('select count(*)::integer as count from raced.a')).toEqual([{ count: 1 }])
  })

  test('separates equal file names of two schemas', async () => {
    await put('000001_create_a.sql', 'select 1;')
    expect(await run('one')).toEqual(['000001_create_a.sql'])
    expect(await run('other')).toEqual(['000001_create_a.sql'])
  })

  test('cannot be run by runtime roles', async () => {
    await put('000001_create_a.sql', 'create schema mine;')
    const connectionString = database.url('findings')
    await expect(migrate({ connectionString, schema: 'mine', directory })).rejects.toMatchObject({ code: '42501' })
  })

  test('finds the tenancy schema complete in a prepared database', async () => {
    const again = await migrate({
      connectionString: database.url('migrator'),
      schema: 'tenancy',
      directory: tenancyMigrations,
    })
    expect(again.applied).toEqual([])
  })
})

describe('giving a function to a definer', () => {
  test('runs it as the definer, for the named callers only, and leaves the definer unable to create anything', async () => {
    await put(
      '000001_create_given.sql',
      `create schema given;
       create table given.secret (word text not null);
       insert into given.secret values ('sesame');
       grant select on given.secret to postern_keys_definer;
       create function given.word() returns text language sql security definer set search_path = ''
         return (select word from given.secret);
       grant usage on schema given to postern_keys, postern_sync;
       call tenancy.give_function('given.word()', 'postern_keys_definer', array['postern_keys']);`,
    )
    await run('given')
    await using keys = await openClient(database.url('keys'))
    expect((await keys.client.query('select given.word()')).rows).toEqual([{ word: 'sesame' }])
    await expect(keys.client.query('select word from given.secret')).rejects.toMatchObject({ code: '42501' })
    await using sync = await openClient(database.url('sync'))
    await expect(sync.client.query('select given.word()')).rejects.toMatchObject({ code: '42501' })
    expect(await query("select has_schema_privilege('postern_keys_definer', 'given', 'create') as may")).toEqual([
      { may: false },
    ])

    await put(
      '000002_change_given.sql',
      `drop function given.word();
       create function given.word() returns text language sql security definer set search_path = ''
         return (select upper(word) from given.secret);
       call tenancy.give_function('given.word()', 'postern_keys_definer', array['postern_keys']);`,
    )
    await run('given')
    expect((await keys.client.query('select given.word()')).rows).toEqual([{ word: 'SESAME' }])
  })

  test.each([
    ['that searches schemas', 'security definer', 'postern_keys_definer'],
    ["that has its caller's rights", "set search_path = ''", 'postern_keys_definer'],
    ['whose definer can log in', "security definer set search_path = ''", 'postern_keys'],
  ])('is rejected for a function %s', async (_what, options, definer) => {
    await put(
      '000001_create_refused.sql',
      `create schema refused;
       create function refused.f() returns integer language sql ${options} return 1;
       call tenancy.give_function('refused.f()', '${definer}', array['postern_keys']);`,
    )
    await expect(run('refused')).rejects.toMatchObject({ cause: { code: 'P0001' } })
  })
})
