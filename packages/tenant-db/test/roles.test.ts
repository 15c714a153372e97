import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { RunningCluster } from '@postern/local-stack/testing'
import { startTestCluster } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RolePasswords } from '../src/index.ts'
import { ensureDatabase, ensureRoles, loginRoles, secondLogins } from '../src/index.ts'
import { definerRoles } from '../src/roles.ts'
import { openClient } from './tenant-tables.ts'

// Roles belong to the cluster, so these tests use their own.
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
/** Logs in and returns the current user. */
async function logIn(role: string, password: string): Promise<unknown> {
  await using connection = await openClient(urlOf(role, password, running.cluster.template))
  return (await connection.client.query<{ name: string }>('select session_user as name')).rows[0]?.name
}

async function query(text: string): Promise<unknown[]> {
  await using connection = await openClient(superuser())
  return (await connection.client.query(text)).rows
}

describe('ensureRoles', () => {
  test('lets every role log in only with its password', async () => {
    expect(Object.keys(passwords).toSorted()).toEqual(Object.keys(loginRoles).toSorted())
    for (const [role, password] of Object.entries(passwords)) {
      const name = `postern_${role}`
      expect(await logIn(name, password)).toBe(name)
      await expect(logIn(name, `${password}x`)).rejects.toMatchObject({ code: '28P01' })
    }
  })

  test('writes nothing without differences, even in concurrent runs', async () => {
    const before = await query('select xmin, oid, * from pg_authid order by oid')
    await Promise.all(Array.from({ length: 4 }, () => ensureRoles(superuser(), passwords)))
    expect(await query('select xmin, oid, * from pg_authid order by oid')).toEqual(before)
  })

  test('corrects changed attributes, settings, memberships and passwords', async () => {
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

  test('changes a password', async () => {
    const next = randomBytes(18).toString('base64url')
    await ensureRoles(superuser(), { ...passwords, evidence: next })
    expect(await logIn(loginRoles.evidence, next)).toBe(loginRoles.evidence)
    await expect(logIn(loginRoles.evidence, passwords.evidence)).rejects.toMatchObject({ code: '28P01' })
    await ensureRoles(superuser(), passwords)
    expect(await logIn(loginRoles.evidence, passwords.evidence)).toBe(loginRoles.evidence)
  })

  test('never sends a password to the server, whose log could contain it', async () => {
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
  ])('rejects a password %s before it sends anything', async (_what, keys) => {
    const refused = ensureRoles('postgres://nobody@127.0.0.1:1/none', { ...passwords, keys })
    await expect(refused).rejects.toThrow('the password of keys must be 16 or more printable ASCII characters')
  })
})

test('only definers see the rows of all tenants, each in its own schema', () => {
  expect(definerRoles).toEqual({
    postern_tenancy: ['tenancy'],
    postern_keys_definer: ['keys'],
    postern_findings_definer: ['findings'],
    postern_evidence_definer: ['evidence'],
  })
})

describe('two passwords of a role', () => {
  const next = randomBytes(18).toString('base64url')
  const who = 'select session_user::text as login, current_user::text as role'

  async function as(login: string, password: string, text = who): Promise<unknown[]> {
    await using connection = await openClient(urlOf(login, password, running.cluster.template))
    return (await connection.client.query(text)).rows
  }

  test('belong to two logins, and the second becomes the role when it logs in', async () => {
    await ensureRoles(superuser(), { ...passwords, findings: `a:${passwords.findings},b:${next}` })
    const role = loginRoles.findings
    expect(await as(role, passwords.findings)).toEqual([{ login: role, role }])
    expect(await as(secondLogins.findings, next)).toEqual([{ login: secondLogins.findings, role }])
    const settings = `select name, setting from pg_settings where name in
      ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'search_path', 'row_security', 'TimeZone') order by 1`
    expect(await as(secondLogins.findings, next, settings)).toEqual(await as(role, passwords.findings, settings))
    const tables = 'select count(*)::int as tables from findings.finding'
    // As the role, it needs an assertion; as the login, it has no rights.
    await expect(as(secondLogins.findings, next, `set role none; ${tables}`)).rejects.toMatchObject({ code: '42501' })
    await expect(as(secondLogins.findings, next, 'set role postern_keys')).rejects.toMatchObject({ code: '42501' })
  })

  test('become one when either is retired', async () => {
    await ensureRoles(superuser(), { ...passwords, findings: `b:${next}` })
    expect(await as(secondLogins.findings, next)).toHaveLength(1)
    await expect(as(loginRoles.findings, passwords.findings)).rejects.toMatchObject({ code: '28P01' })
    await ensureRoles(superuser(), passwords)
    expect(await as(loginRoles.findings, passwords.findings)).toHaveLength(1)
    await expect(as(secondLogins.findings, next)).rejects.toMatchObject({ code: '28P01' })
  })
})

/** Databases of every cluster. */
const everywhere = ['postgres', 'template1']

async function openTo(role: string): Promise<unknown[]> {
  return await query(
    `select datname as name from pg_database
      where datname in ('postgres', 'template1')
        and (has_database_privilege('${role}', oid, 'connect') or has_database_privilege('${role}', oid, 'temporary'))
      order by 1`,
  )
}

describe('ensureDatabase', () => {
  test('reports that it may not create the database', async () => {
    const findings = urlOf('postern_findings', passwords.findings, running.cluster.template)
    await expect(ensureDatabase(findings, 'Not to be made')).rejects.toMatchObject({ code: '42501' })
  })

  test('creates one database in concurrent runs, closed to other roles', async () => {
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

/** Returns the roles with their attributes. */
async function made(): Promise<unknown[]> {
  return await query(`
    select rolname as role, rolcanlogin as login, rolpassword like 'SCRAM-SHA-256$4096:%' as password,
           rolsuper or rolinherit or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls as more,
           array(select unnest(rolconfig) collate "C" order by 1) as settings,
           array(select m.roleid::regrole::text || case when m.set_option and not m.inherit_option and not m.admin_option
                                                        then '' else ' in another way' end
                   from pg_auth_members as m where m.member = a.oid order by 1) as member_of
      from pg_authid as a
      left join lateral (select s.setconfig as rolconfig from pg_db_role_setting as s
                          where s.setrole = a.oid and s.setdatabase = 0) as s on true
     where rolname like 'postern%'
     order by rolname collate "C"`)
}

describe('in an empty cluster', () => {
  const services = ['evidence', 'findings', 'keys', 'sync', 'universe']
  const limits = [
    'TimeZone=UTC',
    'idle_in_transaction_session_timeout=10s',
    'lock_timeout=2s',
    'row_security=on',
    'search_path=extensions',
    'statement_timeout=5s',
  ]
  test('the database and all roles are created with exactly their limits and memberships', async () => {
    for (const name of [running.cluster.template, 'Fresh one']) await query(`drop database "${name}" with (force)`)
    for (const { role } of (await query(
      "select rolname as role from pg_roles where rolname like 'postern%' or rolname = 'stranger'",
    )) as { role: string }[]) {
      await query(`drop role ${role}`)
    }
    expect(await made()).toEqual([])
    await ensureRoles(superuser(), passwords)
    const closed = { more: false, settings: [], member_of: [] }
    const wanted = [
      ...services.flatMap((name) => [
        { ...closed, role: `postern_${name}`, login: true, password: true, settings: limits },
        {
          role: `postern_${name}_b`,
          login: true,
          password: null,
          more: false,
          settings: [...limits, `role=postern_${name}`].toSorted(),
          member_of: [`postern_${name}`],
        },
      ]),
      { ...closed, role: 'postern_evidence_definer', login: false, password: null },
      { ...closed, role: 'postern_findings_definer', login: false, password: null },
      { ...closed, role: 'postern_keys_definer', login: false, password: null },
      { ...closed, role: 'postern_migrator', login: true, password: true, member_of: ['postern_owner'] },
      {
        ...closed,
        role: 'postern_owner',
        login: false,
        password: null,
        member_of: ['postern_evidence_definer', 'postern_findings_definer', 'postern_keys_definer', 'postern_tenancy'],
      },
      { ...closed, role: 'postern_tenancy', login: false, password: null },
    ]
    expect(await made()).toEqual(wanted.toSorted((a, b) => (a.role < b.role ? -1 : 1)))

    await ensureDatabase(superuser(), 'again')
    expect(
      await query(`select datacl::text[] && array['=Tc/postern_owner', '=T/postern_owner', '=c/postern_owner'] as open
                     from pg_database where datname = 'again'`),
    ).toEqual([{ open: false }])
    for (const login of [...services.flatMap((name) => [name, `${name}_b`]), 'migrator']) {
      const may = `select has_database_privilege('postern_${login}', 'again', 'connect') as connect,
                          has_database_privilege('postern_${login}', 'again', 'temporary') as temporary`
      expect(await query(may), login).toEqual([{ connect: true, temporary: false }])
    }
    await using connection = await openClient(superuser('again'))
    const { rows } = await connection.client.query(
      `select p.oid::regprocedure::text as name
         from pg_proc as p
        where p.proname like 'lo\\_%' and has_function_privilege('postern_findings', p.oid, 'execute')
          and p.proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_open', 'lo_put', 'lo_get')`,
    )
    expect(rows).toEqual([])
    // It exists now: nothing is printed, and an opened database is closed again.
    await connection.client.query(
      'grant execute on function lo_creat(integer) to public; grant all on schema public to public',
    )
    await ensureDatabase(superuser(), 'again')
    expect(
      (
        await connection.client.query(
          `select has_function_privilege('postern_findings', 'lo_creat(integer)', 'execute') as large,
                  has_schema_privilege('postern_findings', 'public', 'create') as public`,
        )
      ).rows,
    ).toEqual([{ large: false, public: false }])
  })

  test('closes the default databases to the roles, but not to monitoring', async () => {
    const all = everywhere.map((name) => ({ name }))
    // As PostgreSQL creates them.
    for (const name of everywhere) await query(`grant connect, temporary on database ${name} to public`)
    expect(await openTo('postern_findings')).toEqual(all)
    await Promise.all(Array.from({ length: 4 }, () => ensureDatabase(superuser(), 'another')))
    for (const role of [...Object.values(loginRoles), ...Object.values(secondLogins)])
      expect(await openTo(role)).toEqual([])
    expect(await openTo('pg_monitor')).toEqual(all)
    const findings = urlOf('postern_findings', passwords.findings, 'postgres')
    await expect(openClient(findings)).rejects.toMatchObject({ code: '42501' })
    // Later grants stay.
    await query('grant connect on database postgres to public')
    await ensureDatabase(superuser(), 'another')
    expect(await openTo('postern_findings')).toEqual([{ name: 'postgres' }])
    await query('revoke connect on database postgres from public')
  })
})
