import { changeDatabaseUrl } from '@postern/contracts/internal'
import type { Client } from 'pg'
import { escapeIdentifier } from 'pg'
import { connect } from './connect.ts'
import { loginsOf, parseLoginPasswords } from './login-passwords.ts'
import { isState, withRetries } from './retries.ts'
import { type RoleKind, createRoleSql, isVerifierOf, memberSql, passwordSql, settingsSql } from './role-statements.ts'

export const loginRoles = {
  migrator: 'postern_migrator',
  keys: 'postern_keys',
  findings: 'postern_findings',
  universe: 'postern_universe',
  evidence: 'postern_evidence',
  sync: 'postern_sync',
} as const

/** They own nothing and see one tenant at a time. */
export const runtimeRoles = [
  loginRoles.keys,
  loginRoles.findings,
  loginRoles.universe,
  loginRoles.evidence,
  loginRoles.sync,
] as const

/** Cannot log in; the migrator becomes it. */
export const ownerRole = 'postern_owner'

/** By role: the schemas where it sees all tenants. They cannot log in. */
export const definerRoles: Readonly<Record<string, readonly string[]>> = {
  postern_tenancy: ['tenancy'],
  postern_keys_definer: ['keys'],
  postern_findings_definer: ['findings'],
  postern_evidence_definer: ['evidence'],
}

export type LoginRole = keyof typeof loginRoles

/** Second logins for password rotations. Each becomes the role when it logs in. */
export const secondLogins = {
  keys: `${loginRoles.keys}_b`,
  findings: `${loginRoles.findings}_b`,
  universe: `${loginRoles.universe}_b`,
  evidence: `${loginRoles.evidence}_b`,
  sync: `${loginRoles.sync}_b`,
} as const

/** In the form of `parseLoginPasswords`, with at least 16 printable ASCII characters. A login without one is closed. */
export type RolePasswords = Readonly<Record<LoginRole, string>>

// No statement runs forever.
const runtimeSettings: Readonly<Record<string, string>> = {
  statement_timeout: '5s',
  lock_timeout: '2s',
  idle_in_transaction_session_timeout: '10s',
  search_path: 'extensions',
  row_security: 'on',
  TimeZone: 'UTC',
}

const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

export const logins: readonly string[] = [...Object.values(loginRoles), ...Object.values(secondLogins)]

export const allRoles: ReadonlyArray<readonly [role: string, kind: RoleKind]> = [
  ...[ownerRole, ...Object.keys(definerRoles)].map((role) => [role, 'nologin'] as const),
  ...logins.map((role) => [role, 'login'] as const),
]

export const memberships: ReadonlyArray<readonly [member: string, role: string]> = [
  [loginRoles.migrator, ownerRole],
  // Migrations assign functions to their definer.
  ...Object.keys(definerRoles).map((role) => [ownerRole, role] as const),
  ...services.map((name) => [secondLogins[name], loginRoles[name]] as const),
]

export const roleSettings: ReadonlyArray<readonly [role: string, settings: Readonly<Record<string, string>>]> =
  services.flatMap((name) => [
    [loginRoles[name], runtimeSettings] as const,
    [secondLogins[name], { ...runtimeSettings, role: loginRoles[name] }] as const,
  ])

export type GivenPasswords = { readonly [Role in LoginRole]?: string | undefined }

/** Returns the password of each login. An undefined password closes the login. */
export function loginPasswords({
  migrator,
  ...passwords
}: GivenPasswords): ReadonlyArray<[role: string, password: string | undefined]> {
  const all: Array<[string, string | undefined]> = migrator === undefined ? [] : [[loginRoles.migrator, migrator]]
  for (const name of services) {
    const text = passwords[name]
    if (text === undefined) continue
    const { a, b } = loginsOf(text)
    all.push([loginRoles[name], a], [secondLogins[name], b])
  }
  return all
}

export function assertPasswords(passwords: GivenPasswords): void {
  for (const [role, text] of Object.entries(passwords)) {
    if (text === undefined) continue
    // SASLprep (RFC 4013) does not change these characters.
    if (!parseLoginPasswords(text).every(({ password }) => /^[\x20-\x7e]{16,}$/.test(password)))
      throw new Error(`the password of ${role} must be 16 or more printable ASCII characters`)
  }
}

/**
 * Safe to run concurrently. Needs a superuser, or CREATEROLE with ADMIN on existing roles. Statements contain only
 * SCRAM-SHA-256 verifiers (RFC 5803).
 */
export async function ensureRoles(superuserConnectionString: string, passwords: RolePasswords): Promise<void> {
  assertPasswords(passwords)
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    const { client } = connection
    // Advisory locks are per database, so retries handle other databases.
    await client.query("begin; select pg_advisory_xact_lock(hashtextextended('postern.roles', 0))")
    const created = new Set<string>()
    for (const [role, login] of allRoles) if (await ensureRole(client, role, login)) created.add(role)
    const accepts = await passwordCheck(client, superuserConnectionString)
    for (const [member, role] of memberships) await ensureMember(client, member, role)
    for (const [role, settings] of roleSettings) await ensureSettings(client, role, settings)
    for (const [role, password] of loginPasswords(passwords)) {
      if (created.has(role) || !(await accepts(role, password))) await client.query(passwordSql(role, password))
    }
    await client.query('commit')
  })
}

/** Returns whether the role was created. Only a superuser may mention SUPERUSER. */
async function ensureRole(client: Client, role: string, login: RoleKind): Promise<boolean> {
  const { rows } = await client.query<{ changes: string[] }>(
    `select array_remove(array[
              case when rolcanlogin is distinct from ($2 = 'login') then $2 end,
              case when rolsuper then 'nosuperuser' end,
              case when rolbypassrls then 'nobypassrls' end,
              case when rolcreatedb then 'nocreatedb' end,
              case when rolcreaterole then 'nocreaterole' end,
              case when rolreplication then 'noreplication' end,
              case when rolinherit then 'noinherit' end], null) as changes
       from pg_roles
      where rolname = $1`,
    [role, login],
  )
  const [found] = rows
  if (found === undefined) {
    await client.query(createRoleSql(role, login))
    return true
  }
  if (found.changes.length > 0) await client.query(`alter role ${escapeIdentifier(role)} ${found.changes.join(' ')}`)
  return false
}

async function ensureMember(client: Client, member: string, role: string): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_auth_members
      where roleid = $1::regrole and member = $2::regrole and set_option and not inherit_option and not admin_option`,
    [role, member],
  )
  if (rowCount !== 0) return
  await client.query(memberSql(member, role))
}

/** Replaces all settings, because roles can change their own. */
async function ensureSettings(client: Client, role: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const { rows } = await client.query<{ settings: string[] }>(
    "select coalesce(rolconfig, '{}') as settings from pg_roles where rolname = $1",
    [role],
  )
  const wanted = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  if (wanted.toSorted().join('\n') === (rows[0]?.settings ?? []).toSorted().join('\n')) return
  for (const statement of settingsSql(role, settings)) await client.query(statement)
}

/** Whether the login has this password, or is closed if undefined. */
type PasswordCheck = (role: string, password: string | undefined) => Promise<boolean>

/** Superusers compare verifiers; others try to log in. */
async function passwordCheck(client: Client, connectionString: string): Promise<PasswordCheck> {
  const { rows } = await client.query<{ readable: boolean }>(
    "select has_table_privilege('pg_catalog.pg_authid', 'select') as readable",
  )
  if (rows[0]?.readable === true) {
    return async (role, password) => {
      const stored = await client.query<{ verifier: string | null; ended: boolean }>(
        `select rolpassword as verifier, coalesce(rolvaliduntil = '-infinity', false) as ended from pg_authid where rolname = $1`,
        [role],
      )
      const [row] = stored.rows
      if (password === undefined) return row?.verifier === null
      return row?.ended === false && isVerifierOf(row.verifier ?? '', password)
    }
  }
  return async (role, password) => {
    const stored = await client.query<{ ended: boolean }>(
      `select coalesce(rolvaliduntil = '-infinity', false) as ended from pg_roles where rolname = $1`,
      [role],
    )
    const ended = stored.rows[0]?.ended === true
    if (password === undefined || ended) return ended === (password === undefined)
    return await canLogIn(connectionString, role, password)
  }
}

async function canLogIn(connectionString: string, role: string, password: string): Promise<boolean> {
  const asRole = changeDatabaseUrl(connectionString, (url) => {
    url.username = encodeURIComponent(role)
    url.password = encodeURIComponent(password)
  })
  try {
    const connection = await connect(asRole)
    await connection[Symbol.asyncDispose]()
    return true
  } catch (error) {
    // PostgreSQL checks the password before CONNECT, so the password was correct.
    if (isState(error, '42501')) return true
    if (isState(error, '28P01', '28000')) return false
    throw error
  }
}
