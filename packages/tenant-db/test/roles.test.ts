import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { RunningCluster } from '@postern/local-stack/testing'
import { startTestCluster } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RolePasswords } from '../src/index.ts'
import { ensureDatabase, ensureRoles, loginRoles, secondLogins } from '../src/index.ts'
import { openClient } from './tenant-tables.ts'

// Roles belong to the whole cluster, so that these tests have one of their own.
let running: RunningCluster
let passwords: RolePasswords

beforeAll(async () => {
  running = await startTestCluster()
  passwords = running.cluster.passwords
})

afterAll(async () => {
  await running.stop()
})

const urlOf = (user: string, password: string, database: string): string =>
  `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${running.cluster.port}/${database}`
const superuser = (database = 'postgres'): string => urlOf('postgres', running.cluster.superuserPassword, database)
/** Logs in and gives the name of who is in. */
async function logIn(role: string, password: string): Promise<unknown> {
  await using connection = await openClient(urlOf(role, password, running.cluster.template))
  return (await connection.client.query<{ name: string }>('select session_user as name')).rows[0]?.name
}

async function query(text: string): Promise<unknown[]> {
  await using connection = await openClient(superuser())
  return (await connection.client.query(text)).rows
}

describe('ensureRoles', () => {
  test('lets every role log in with its password and with no other', async () => {
    expect(Object.keys(passwords).toSorted()).toEqual(Object.keys(loginRoles).toSorted())
    for (const [role, password] of Object.entries(passwords)) {
      const name = `postern_${role}`
      expect(await logIn(name, password)).toBe(name)
      await expect(logIn(name, `${password}x`)).rejects.toMatchObject({ code: '28P01' })
    }
  })

  test('writes nothing when nothing differs, also started several times at once', async () => {
    const before = await query('select xmin, oid, * from pg_authid order by oid')
    await Promise.all(Array.from({ length: 4 }, () => ensureRoles(superuser(), passwords)))
    expect(await query('select xmin, oid, * from pg_authid order by oid')).toEqual(before)
  })

  test('mends what was changed: attributes, settings, memberships, passwords', async () => {
    const state = `select rolname, rolsuper, rolcanlogin, rolinherit, rolcreatedb, rolconfig from pg_roles
                    where rolname like 'postern%' order by 1`
    const memberships = `select roleid::regrole::text, member::regrole::text, inherit_option, set_option
                           from pg_auth_members where member::regrole::text like 'postern%' order by 1, 2`
    const good = [await query(state), await query(memberships)]
    await query(`alter role postern_findings superuser createdb inherit;
                 alter role postern_keys set statement_timeout = 0;
                 alter role postern_keys set work_mem = '1GB';
                 alter role postern_sync password 'somebody-elses-password';
                 grant postern_owner to postern_migrator with inherit true`)
    await ensureRoles(superuser(), passwords)
    expect([await query(state), await query(memberships)]).toEqual(good)
    expect(await logIn(loginRoles.sync, passwords.sync)).toBe(loginRoles.sync)
  })

  test('changes a password when it is told another', async () => {
    const next = randomBytes(18).toString('base64url')
    await ensureRoles(superuser(), { ...passwords, evidence: next })
    expect(await logIn(loginRoles.evidence, next)).toBe(loginRoles.evidence)
    await expect(logIn(loginRoles.evidence, passwords.evidence)).rejects.toMatchObject({ code: '28P01' })
    await ensureRoles(superuser(), passwords)
    expect(await logIn(loginRoles.evidence, passwords.evidence)).toBe(loginRoles.evidence)
  })

  test('never sends a password to the server, so that no log can hold one', async () => {
    const password = randomBytes(18).toString('base64url')
    await query("alter system set log_statement = 'all'")
    await query('select pg_reload_conf()')
    await expect.poll(() => query('show log_statement')).toEqual([{ log_statement: 'all' }])
    await query('alter role postern_sync password null')
    await ensureRoles(superuser(), { ...passwords, sync: password })
    const [row] = await query("select rolpassword as stored from pg_authid where rolname = 'postern_sync'")
    expect(JSON.stringify(row)).toContain('SCRAM-SHA-256$4096:')
    const log = await readFile(`${running.cluster.home}/logs/postgres.log`, 'utf8')
    expect(log).toContain('alter role "postern_sync" password \'SCRAM-SHA-256$')
    expect(log).not.toContain(password)
    await query('alter system reset log_statement')
    await query('select pg_reload_conf()')
    await ensureRoles(superuser(), passwords)
  })

  test.each([
    ['short', 'fifteen-chars!!'],
    ['with letters that have several spellings', 'a long enough päßword'],
    ['with a line end', 'a long enough password\n'],
  ])('refuses a password %s, before anything is sent', async (_what, keys) => {
    const refused = ensureRoles('postgres://nobody@127.0.0.1:1/none', { ...passwords, keys })
    await expect(refused).rejects.toThrow('password of keys: 16 or more printable ASCII characters')
  })
})

describe('two passwords of a role', () => {
  const next = randomBytes(18).toString('base64url')
  const who = 'select session_user::text as login, current_user::text as role'

  async function as(login: string, password: string, text = who): Promise<unknown[]> {
    await using connection = await openClient(urlOf(login, password, running.cluster.template))
    return (await connection.client.query(text)).rows
  }

  test('are those of two logins, of which the second is the role from its first statement on', async () => {
    await ensureRoles(superuser(), { ...passwords, findings: `a:${passwords.findings},b:${next}` })
    const role = loginRoles.findings
    expect(await as(role, passwords.findings)).toEqual([{ login: role, role }])
    expect(await as(secondLogins.findings, next)).toEqual([{ login: secondLogins.findings, role }])
    const settings = `select name, setting from pg_settings where name in
      ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'search_path', 'row_security', 'TimeZone') order by 1`
    expect(await as(secondLogins.findings, next, settings)).toEqual(await as(role, passwords.findings, settings))
    const tables = 'select count(*)::int as tables from findings.finding'
    // As the role it is asked for the assertion; by itself it may not even look.
    await expect(as(secondLogins.findings, next, `set role none; ${tables}`)).rejects.toMatchObject({ code: '42501' })
    await expect(as(secondLogins.findings, next, 'set role postern_keys')).rejects.toMatchObject({ code: '42501' })
  })

  test('become one when the first is retired, and the other way round', async () => {
    await ensureRoles(superuser(), { ...passwords, findings: `b:${next}` })
    expect(await as(secondLogins.findings, next)).toHaveLength(1)
    await expect(as(loginRoles.findings, passwords.findings)).rejects.toMatchObject({ code: '28P01' })
    await ensureRoles(superuser(), passwords)
    expect(await as(loginRoles.findings, passwords.findings)).toHaveLength(1)
    await expect(as(secondLogins.findings, next)).rejects.toMatchObject({ code: '28P01' })
  })
})

describe('ensureDatabase', () => {
  test('started several times at once makes one database, closed to strangers', async () => {
    await Promise.all(Array.from({ length: 4 }, () => ensureDatabase(superuser(), 'Fresh one')))
    expect(
      await query(`select pg_get_userbyid(datdba) as owner, datlocprovider as provider, datlocale as locale, datcollate as collate
                     from pg_database where datname = 'Fresh one'`),
    ).toEqual([{ owner: 'postern_owner', provider: 'b', locale: 'C.UTF-8', collate: 'C' }])
    await query("create role stranger login password 'a-strangers-password'")
    const refused = openClient(urlOf('stranger', 'a-strangers-password', 'Fresh%20one'))
    await expect(refused).rejects.toMatchObject({ code: '42501' })
    await using findings = await openClient(urlOf('postern_findings', passwords.findings, 'Fresh%20one'))
    await expect(findings.client.query('create temporary table t (id uuid)')).rejects.toMatchObject({ code: '42501' })
    await expect(findings.client.query('create table public.t (id uuid)')).rejects.toMatchObject({ code: '42501' })
  })
})
