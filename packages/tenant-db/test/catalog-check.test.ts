import type { TestDatabase } from '@postern/local-stack/testing'
import { createTestDatabase } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { CatalogAllowances, CatalogRule, Violation } from '../src/catalog-check.ts'
import { findViolations } from '../src/catalog-check.ts'
import { checkCatalog, ensureDatabase, migrate, tenancyMigrations } from '../src/index.ts'
import { faultsIn } from './catalog-faults.ts'
import { openClient } from './tenant-tables.ts'

const name = `catalog_${process.pid}_${Date.now()}`
let shared: TestDatabase

const inOurs = (url: string): string => {
  const ours = new URL(url)
  ours.pathname = `/${name}`
  return ours.href
}

/** Allowed exceptions in the schema below. */
const allow: CatalogAllowances = {
  tablesWithoutTenant: ['keys.seq'],
  definerFunctions: ['keys.find(text)'],
  globalIndexes: ['keys.thing_hash_unique'],
}

// A database with the tenancy schema and a correct schema.
const clean = `
  create schema clean;
  create schema keys;
  create table clean.parent (
    tenant_id uuid not null, id uuid not null, name text not null,
    constraint parent_pk primary key (tenant_id, id),
    constraint parent_name_unique unique (tenant_id, name)
  );
  create table clean.child (
    tenant_id uuid not null, id uuid not null, parent_id uuid not null,
    constraint child_pk primary key (tenant_id, id),
    constraint child_id_unique unique (id),
    constraint child_parent_fk foreign key (tenant_id, parent_id) references clean.parent
  );
  call tenancy.protect_table('clean.parent', 'postern_findings', array['select', 'insert', 'update', 'delete']);
  call tenancy.protect_table('clean.child', 'postern_findings', array['select']);
  create view clean.names with (security_invoker = true) as select name from clean.parent;
  grant select on clean.names to postern_findings;
  create trigger child_append before update or delete on clean.child
    for each row execute function tenancy.refuse_change();
  create table keys.thing (
    tenant_id uuid not null, id uuid not null, hash text not null,
    constraint thing_pk primary key (tenant_id, id),
    constraint thing_hash_unique unique (hash)
  );
  call tenancy.protect_table('keys.thing', 'postern_keys', array['select', 'insert']);
  call tenancy.admit_definer('keys.thing', 'postern_keys_definer', array['select']);
  create table keys.seq (seq bigint not null);
  create function keys.find(text) returns uuid language sql security definer set search_path = ''
    return (select id from keys.thing where hash = $1);
  call tenancy.give_function('keys.find(text)', 'postern_keys_definer', array['postern_keys']);`

beforeAll(async () => {
  shared = await createTestDatabase()
  await ensureDatabase(shared.url('superuser'), name)
  const connectionString = inOurs(shared.url('migrator'))
  await migrate({ connectionString, schema: 'tenancy', directory: tenancyMigrations })
  await using connection = await openClient(connectionString)
  await connection.client.query(`set role postern_owner; ${clean}`)
})

afterAll(async () => {
  await using connection = await openClient(shared.url('superuser'))
  await connection.client.query(`drop database ${name} with (force)`)
  await shared.drop()
})

/** Returns the violations after the statements, run as the superuser and rolled back. */
async function findAfter(statements: string, only?: CatalogRule): Promise<Violation[]> {
  await using connection = await openClient(inOurs(shared.url('superuser')))
  await connection.client.query(`begin; ${statements}`)
  const violations = await findViolations(connection.client, allow, only)
  await connection.client.query('rollback')
  return violations
}

test('a correct database has no violations, whoever checks it', async () => {
  expect(await checkCatalog(inOurs(shared.url('superuser')), { allow })).toEqual([])
  expect(await checkCatalog(inOurs(shared.url('findings')), { allow })).toEqual([])
})

test('the search path does not change the result', async () => {
  const url = new URL(inOurs(shared.url('superuser')))
  url.searchParams.set('options', '-c search_path=clean,keys,tenancy,postern_meta')
  expect(await checkCatalog(url.href, { allow })).toEqual([])
})

test.each(['keys', 'findings', 'universe', 'evidence', 'sync'])(
  'the second login of %s becomes only that role',
  async (service) => {
    const login = `postern_${service}_b`
    expect(await findAfter(`alter role ${login} reset role`, 'C4')).toEqual([
      { rule: 'C4', object: login, problem: 'is not the role of its service from its first statement on' },
    ])
    expect(await findAfter(`grant postern_owner to ${login}`, 'C4')).toContainEqual({
      rule: 'C4',
      object: login,
      problem: 'is a member of postern_owner',
    })
  },
)

test('a role with CREATEROLE can administer the roles without having their rights', async () => {
  const make = 'create role site_admin createrole; grant postern_owner to site_admin with admin true'
  expect(await findAfter(`${make}, inherit false, set true`, 'C4')).toEqual([])
  expect(await findAfter(`${make}, inherit true`, 'C4')).toEqual([
    { rule: 'C4', object: 'site_admin', problem: 'is a member of postern_owner' },
  ])
})

test('objects that are not on the list are violations', async () => {
  expect(await checkCatalog(inOurs(shared.url('superuser')), { allow: {} })).toEqual([
    { rule: 'C1', object: 'keys.seq', problem: 'has no column tenant_id uuid not null' },
    { rule: 'C1', object: 'keys.seq', problem: 'row level security is not enabled' },
    { rule: 'C1', object: 'keys.seq', problem: 'row level security is not forced on its owner' },
    { rule: 'C3', object: 'keys.seq', problem: 'no restrictive policy of the tenant for all commands' },
    { rule: 'C3', object: 'keys.seq', problem: 'the restrictive policy does not hold for postern_owner' },
    { rule: 'C7', object: 'keys.thing', problem: 'index keys.thing_hash_unique is unique over all tenants' },
    { rule: 'C9', object: 'keys.find(text)', problem: 'security definer, and runtime role postern_keys may call it' },
    { rule: 'C13', object: 'keys.seq', problem: 'no complete index begins with tenant_id' },
  ])
})

describe('a planted fault is detected', () => {
  const faults = faultsIn(name)

  test.each(faults)('%s after: %s', async (rule, statements, object, problem) => {
    expect(await findAfter(statements, rule)).toContainEqual({ rule, object, problem })
  })

  test('for every rule', () => {
    const planted = new Set(faults.map(([rule]) => rule))
    expect([...planted]).toEqual(Array.from({ length: 13 }, (_, index) => `C${index + 1}`))
  })
})

describe('the tenancy schema', () => {
  test('has no violations: its triggers record the tenant of the row', async () => {
    const tracked = `
      call tenancy.track_changes('clean.parent', 'parent'); call tenancy.count_links('clean.child', 'parent', 'parent_id')`
    expect(await findAfter(tracked)).toEqual([])
  })
})

const rulesOf = (violations: readonly Violation[]): CatalogRule[] => [...new Set(violations.map(({ rule }) => rule))]

test('one rule can be checked separately', async () => {
  const bare = 'create table clean.bare (id uuid)'
  expect(rulesOf(await findAfter(bare))).toEqual(['C1', 'C3', 'C13'])
  expect(rulesOf(await findAfter(bare, 'C1'))).toEqual(['C1'])
})

describe('objects of an extension', () => {
  test('are not checked', async () => {
    expect(await findAfter('create extension pg_trgm schema extensions')).toEqual([])
  })
})
