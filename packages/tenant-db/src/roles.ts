import { changeDatabaseUrl } from '@postern/contracts/internal'
import type { Client } from 'pg'
import { escapeIdentifier } from 'pg'
import { connect } from './connect.ts'
import { loginsOf, parseLoginPasswords } from './login-passwords.ts'
import { isState, withRetries } from './retries.ts'
import { type RoleKind, createRoleSql, isVerifierOf, memberSql, passwordSql, settingsSql } from './role-statements.ts'

/** Roles that log in: one for each service that has tables, and one for migrations. */
export const loginRoles = {
  migrator: 'postern_migrator',
  keys: 'postern_keys',
  findings: 'postern_findings',
  universe: 'postern_universe',
  evidence: 'postern_evidence',
  sync: 'postern_sync',
} as const

/** The roles that services run as. They own nothing and see one tenant at a time. */
export const runtimeRoles = [
  loginRoles.keys,
  loginRoles.findings,
  loginRoles.universe,
  loginRoles.evidence,
  loginRoles.sync,
] as const

/** Owns every schema and table. Nobody logs in as it; the migrator takes it on. */
export const ownerRole = 'postern_owner'

/**
 * Roles that SECURITY DEFINER functions run as, each with the schemas where it may see the rows of all tenants. Nobody
 * logs in as them.
 */
export const definerRoles: Readonly<Record<string, readonly string[]>> = {
  postern_tenancy: ['tenancy'],
  postern_keys_definer: ['keys'],
  postern_evidence_definer: ['evidence'],
}

export type LoginRole = keyof typeof loginRoles

/**
 * The second login of each role that services run as, for the time in which a password is replaced: whoever comes in by it is
 * the role from the first statement on, and has no rights but those of the role.
 */
export const secondLogins = {
  keys: `${loginRoles.keys}_b`,
  findings: `${loginRoles.findings}_b`,
  universe: `${loginRoles.universe}_b`,
  evidence: `${loginRoles.evidence}_b`,
  sync: `${loginRoles.sync}_b`,
} as const

/**
 * The passwords of each role that logs in, as `parseLoginPasswords` reads them: printable ASCII, at least 16 characters each.
 * Who has a login that is not named has no password for it any more.
 */
export type RolePasswords = Readonly<Record<LoginRole, string>>

// What a forgotten limit must never be: endless. Services set nothing of this themselves.
const runtimeSettings: Readonly<Record<string, string>> = {
  statement_timeout: '5s',
  lock_timeout: '2s',
  idle_in_transaction_session_timeout: '10s',
  search_path: 'extensions',
  row_security: 'on',
  TimeZone: 'UTC',
}

const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

/** Every role that can log in. */
export const logins: readonly string[] = [...Object.values(loginRoles), ...Object.values(secondLogins)]

export const allRoles: ReadonlyArray<readonly [role: string, kind: RoleKind]> = [
  ...[ownerRole, ...Object.keys(definerRoles)].map((role) => [role, 'nologin'] as const),
  ...logins.map((role) => [role, 'login'] as const),
]

export const memberships: ReadonlyArray<readonly [member: string, role: string]> = [
  [loginRoles.migrator, ownerRole],
  // So that a migration can give a function to its definer (alter function … owner to …).
  ...Object.keys(definerRoles).map((role) => [ownerRole, role] as const),
  ...services.map((name) => [secondLogins[name], loginRoles[name]] as const),
]

export const roleSettings: ReadonlyArray<readonly [role: string, settings: Readonly<Record<string, string>>]> =
  services.flatMap((name) => [
    [loginRoles[name], runtimeSettings] as const,
    [secondLogins[name], { ...runtimeSettings, role: loginRoles[name] }] as const,
  ])

export type GivenPasswords = { readonly [Role in LoginRole]?: string | undefined }

/** Each login of the roles named, with its password; undefined if nobody may log in by it. */
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
    // SASLprep (RFC 4013) leaves these characters alone, so the verifier needs no normalization.
    if (!parseLoginPasswords(text).every(({ password }) => /^[\x20-\x7e]{16,}$/.test(password)))
      throw new Error(`password of ${role}: 16 or more printable ASCII characters`)
  }
}

/**
 * Creates the cluster's roles and repairs those that differ. Needs a role with CREATEROLE that has ADMIN on the roles that are
 * there already, or a superuser. It may run in several processes at once, and writes nothing where nothing differs. Passwords
 * are never part of a statement: PostgreSQL is sent the SCRAM-SHA-256 verifier (RFC 5803), from which nobody can log in.
 */
export async function ensureRoles(superuserConnectionString: string, passwords: RolePasswords): Promise<void> {
  assertPasswords(passwords)
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    const { client } = connection
    // Advisory locks hold within one database: starters that came through another one are caught by the retries.
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

/** Whether the role was created just now. Only attributes that differ are changed: a role without SUPERUSER may not name it. */
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

/** The member can take on the role, but has none of its rights before it does. */
async function ensureMember(client: Client, member: string, role: string): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_auth_members
      where roleid = $1::regrole and member = $2::regrole and set_option and not inherit_option and not admin_option`,
    [role, member],
  )
  if (rowCount !== 0) return
  await client.query(memberSql(member, role))
}

/** The role's settings and no others: a role may change its own, so one that was taken over may have. */
async function ensureSettings(client: Client, role: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const { rows } = await client.query<{ settings: string[] }>(
    "select coalesce(rolconfig, '{}') as settings from pg_roles where rolname = $1",
    [role],
  )
  const wanted = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  if (wanted.toSorted().join('\n') === (rows[0]?.settings ?? []).toSorted().join('\n')) return
  for (const statement of settingsSql(role, settings)) await client.query(statement)
}

/** Whether a role accepts a password and no other; without one: whether it accepts none. */
type PasswordCheck = (role: string, password: string | undefined) => Promise<boolean>

/** Compares stored verifiers for those who may read them, as superusers may. For others it tries to log in. */
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
    // PostgreSQL checks the password first: without CONNECT on this database it was the right one.
    if (isState(error, '42501')) return true
    if (isState(error, '28P01', '28000')) return false
    throw error
  }
}
