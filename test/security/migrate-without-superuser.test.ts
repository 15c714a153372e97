import { randomBytes } from 'node:crypto'
import { prepareDatabase, roleUrl } from '@postern/installation'
import { type RunningCluster, startTestCluster } from '@postern/local-stack/testing'
import { checkCatalog, describeRoles } from '@postern/tenant-db'
import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'

// Roles belong to the whole cluster, so these tests have one of their own.
let running: RunningCluster

const adminPassword = randomBytes(18).toString('base64url')
const next = randomBytes(18).toString('base64url')

beforeAll(async () => {
  running = await startTestCluster()
})

afterAll(async () => {
  await running.stop()
})

const urlOf = (user: string, password: string, database: string): string =>
  `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${running.cluster.port}/${database}`
const superuser = (database = 'postgres'): string => urlOf('postgres', running.cluster.superuserPassword, database)
const admin = (database = 'postgres'): string => urlOf('site_admin', adminPassword, database)

async function query<Row extends object>(url: string, ...statements: readonly string[]): Promise<Row[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    let rows: Row[] = []
    for (const statement of statements) rows = (await client.query<Row>(statement)).rows
    return rows
  } finally {
    await client.end()
  }
}

/** An empty cluster as a platform hands it over: nobody may be superuser, and `postgres` is open. */
async function emptyCluster(): Promise<void> {
  await query(
    superuser(),
    `drop database if exists ${running.cluster.template} with (force)`,
    'drop database if exists site with (force)',
  )
  const roles = await query<{ role: string }>(
    superuser(),
    "select rolname as role from pg_roles where rolname like 'postern%' or rolname = 'site_admin' order by rolname = 'site_admin'",
  )
  for (const { role } of roles) {
    // Memberships that the administrator granted hold the administrator's role back.
    await query(superuser(), `drop owned by ${role} cascade`, `drop role ${role}`)
  }
  await query(
    superuser(),
    'grant connect, temporary on database postgres to public',
    `create role site_admin login createrole createdb password '${adminPassword}'`,
  )
}

const prepare = async (passwords = running.cluster.passwords) =>
  await prepareDatabase({
    database: 'site',
    superuser: { url: admin, passwords },
    migratorUrl: roleUrl('migrator', passwords.migrator, `127.0.0.1:${running.cluster.port}`, 'site'),
    assertionKeys: running.cluster.assertionKeys,
  })

const prepareAsPlainRoles = async () =>
  await prepareDatabase({
    database: 'site',
    migratorUrl: roleUrl('migrator', running.cluster.passwords.migrator, `127.0.0.1:${running.cluster.port}`, 'site'),
    assertionKeys: running.cluster.assertionKeys,
  })

/** All roles, memberships and databases, with the transaction that last wrote each. */
async function writtenState(): Promise<unknown[]> {
  return [
    await query(superuser(), 'select xmin, * from pg_authid order by oid'),
    await query(superuser(), 'select xmin, * from pg_auth_members order by oid'),
    await query(superuser(), 'select xmin, * from pg_db_role_setting order by setrole'),
    await query(superuser(), "select xmin, datdba, datacl from pg_database where datname = 'site'"),
  ]
}

async function roleViolations(): Promise<unknown[]> {
  const violations = await checkCatalog(superuser('site'), { allow: {} })
  return violations.filter(({ rule }) => rule === 'C4')
}

async function logIn(user: string, password: string): Promise<unknown> {
  return await query(urlOf(user, password, 'site'), 'select current_user::text as name')
}

/** What somebody else runs, statement by statement. */
async function runAsSomebodyElse(sql: string, url: string): Promise<void> {
  const lines = sql.split('\n').filter((line) => !line.startsWith('--'))
  await query(
    url,
    ...lines
      .join('\n')
      .split(/;\n+/)
      .filter((statement) => statement.trim() !== ''),
  )
}

describe('a role with CREATEROLE and CREATEDB', () => {
  beforeEach(emptyCluster)

  test('creates roles, database and schemas in an empty cluster, and the next run changes no role', async () => {
    const { applied, largeObjectsOpen } = await prepare()
    expect(applied.some((name) => name.startsWith('sync/'))).toBe(true)
    expect(largeObjectsOpen).toBe(true)
    expect(await roleViolations()).toEqual([])
    for (const name of ['keys', 'findings', 'universe', 'evidence', 'sync'] as const) {
      const role = `postern_${name}`
      expect(await logIn(role, running.cluster.passwords[name])).toEqual([{ name: role }])
    }
    const before = await writtenState()
    expect((await prepare()).applied).toEqual([])
    expect(await writtenState()).toEqual(before)
    // Only our roles can connect.
    await expect(query(admin('site'), 'select 1')).rejects.toMatchObject({ code: '42501' })
  })

  test('rotates a password with the second login, and disables the first', async () => {
    const { passwords } = running.cluster
    await prepare()
    await prepare({ ...passwords, findings: `a:${passwords.findings},b:${next}` })
    expect(await logIn('postern_findings', passwords.findings)).toEqual([{ name: 'postern_findings' }])
    expect(await logIn('postern_findings_b', next)).toEqual([{ name: 'postern_findings' }])
    await prepare({ ...passwords, findings: `b:${next}` })
    expect(await logIn('postern_findings_b', next)).toEqual([{ name: 'postern_findings' }])
    await expect(logIn('postern_findings', passwords.findings)).rejects.toMatchObject({ code: '28P01' })
    await prepare()
    expect(await logIn('postern_findings', passwords.findings)).toEqual([{ name: 'postern_findings' }])
    await expect(logIn('postern_findings_b', next)).rejects.toMatchObject({ code: '28P01' })
  })

  test('restores changed attributes, settings and passwords', async () => {
    await prepare()
    await query(
      admin(),
      'alter role postern_findings createdb inherit',
      'alter role postern_keys set statement_timeout = 0',
      "alter role postern_sync password 'somebody-elses-password'",
    )
    await prepare()
    expect(
      await query(
        superuser(),
        "select rolcreatedb or rolinherit as more from pg_roles where rolname = 'postern_findings'",
      ),
    ).toEqual([{ more: false }])
    expect(await roleViolations()).toEqual([])
    expect(await logIn('postern_sync', running.cluster.passwords.sync)).toHaveLength(1)
    await expect(logIn('postern_sync', 'somebody-elses-password')).rejects.toMatchObject({ code: '28P01' })
  })
})

describe('the printed statements', () => {
  beforeEach(emptyCluster)

  test.each([
    ['a superuser', superuser],
    ['a role with CREATEROLE and CREATEDB', admin],
  ])('run by %s let plain roles migrate', async (_who, url) => {
    const sql = describeRoles('site', running.cluster.passwords)
    for (const password of Object.values(running.cluster.passwords)) expect(sql).not.toContain(password)
    await runAsSomebodyElse(sql, url())
    expect((await prepareAsPlainRoles()).applied.some((name) => name.startsWith('sync/'))).toBe(true)
    expect(await roleViolations()).toEqual([])
    expect(await logIn('postern_keys', running.cluster.passwords.keys)).toEqual([{ name: 'postern_keys' }])
    const before = await writtenState()
    // A later run with more rights finds nothing to do.
    expect((await prepare()).applied).toEqual([])
    expect(await writtenState()).toEqual(before)
  })

  test('without passwords allow no login until passwords are set', async () => {
    await runAsSomebodyElse(describeRoles('site', {}), admin())
    const { migrator } = running.cluster.passwords
    await expect(prepareAsPlainRoles()).rejects.toMatchObject({ code: '28P01' })
    await query(admin(), `alter role postern_migrator password '${migrator}'`)
    expect((await prepareAsPlainRoles()).applied).not.toEqual([])
  })
})
