import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Client } from 'pg'
import { escapeIdentifier, escapeLiteral } from 'pg'
import { connect } from './connect.ts'
import { loginsOf, parseLoginPasswords } from './login-passwords.ts'
import { isState, withRetries } from './retries.ts'

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

const closed = 'nosuperuser nobypassrls nocreatedb nocreaterole noreplication noinherit'

/**
 * Creates the cluster's roles and mends those that differ. Needs a superuser (to read the stored passwords). It may run
 * in several processes at once, and writes nothing where nothing differs. Passwords never leave this process: what
 * PostgreSQL is sent is the SCRAM-SHA-256 verifier (RFC 5803), from which nobody can log in.
 */
export async function ensureRoles(superuserConnectionString: string, passwords: RolePasswords): Promise<void> {
  for (const [role, text] of Object.entries(passwords)) {
    // SASLprep (RFC 4013) leaves these characters alone, so the verifier needs no normalisation.
    if (!parseLoginPasswords(text).every(({ password }) => /^[\x20-\x7e]{16,}$/.test(password)))
      throw new Error(`password of ${role}: 16 or more printable ASCII characters`)
  }
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    const { client } = connection
    // Advisory locks hold within one database: starters that came through another one are caught by the retries.
    await client.query("begin; select pg_advisory_xact_lock(hashtextextended('postern.roles', 0))")
    for (const role of [ownerRole, ...Object.keys(definerRoles)]) await ensureRole(client, role, 'nologin')
    for (const role of Object.values(loginRoles)) await ensureRole(client, role, 'login')
    await ensureMember(client, loginRoles.migrator, ownerRole)
    // So that a migration can give a function to its definer (alter function … owner to …).
    for (const role of Object.keys(definerRoles)) await ensureMember(client, ownerRole, role)
    for (const role of runtimeRoles) await ensureSettings(client, role, runtimeSettings)
    await ensurePassword(client, loginRoles.migrator, passwords.migrator)
    for (const name of services) await ensureLogins(client, name, passwords[name])
    await client.query('commit')
  })
}

/** Creates the database if it is not there and closes it to everyone but our roles. The roles must be there. */
export async function ensureDatabase(superuserConnectionString: string, database: string): Promise<void> {
  const name = escapeIdentifier(database)
  let isNew = false
  {
    await using connection = await connect(superuserConnectionString)
    const { rowCount } = await connection.client.query('select from pg_database where datname = $1', [database])
    if (rowCount === 0) {
      try {
        // A locale that is the same on every machine and never changes under an index.
        await connection.client.query(`create database ${name} owner ${ownerRole} template template0 encoding 'UTF8'
          locale_provider builtin builtin_locale 'C.UTF-8' lc_collate 'C' lc_ctype 'C'`)
        isNew = true
      } catch (error) {
        // Another starter was first: duplicate_database, or the unique index behind it.
        if (!isState(error, '42P04', '23505')) throw error
      }
    }
  }
  const url = new URL(superuserConnectionString)
  url.pathname = `/${encodeURIComponent(database)}`
  await withRetries(async () => {
    await using connection = await connect(url.href)
    // No CONNECT for strangers, no temporary tables for anyone: they would come first on every search_path.
    await connection.client.query(`begin;
      select pg_advisory_xact_lock(hashtextextended('postern.database', 0));
      alter database ${name} owner to ${ownerRole};
      revoke all on database ${name} from public;
      grant connect on database ${name} to ${[...Object.values(loginRoles), ...Object.values(secondLogins)].join(', ')};
      revoke all on schema public from public;
      ${closeLargeObjects}
      commit`)
  })
  if (!isNew) return
  await withRetries(async () => {
    await using connection = await connect(superuserConnectionString)
    await closeOthers(connection.client)
  })
}

/**
 * Takes from everyone what PostgreSQL gives everyone in the databases that each cluster has: a service's role would connect there, past
 * its pooler, and make temporary tables and large objects that no request of its tenant ends. Who watches the cluster keeps the way in. Once, with
 * the installation: later somebody may have opened them again, for a backup say, and no upgrade is to end that.
 */
async function closeOthers(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select d.datname as name
       from pg_database as d
      where d.datname in ('postgres', 'template1')
        and (has_database_privilege('public', d.oid, 'connect') or has_database_privilege('public', d.oid, 'temporary'))
      order by 1`,
  )
  for (const { name } of rows) {
    const database = escapeIdentifier(name)
    try {
      await client.query(
        `grant connect on database ${database} to pg_monitor; revoke connect, temporary on database ${database} from public`,
      )
    } catch (error) {
      // Of a cluster that somebody else manages it may not be ours to say.
      if (!isState(error, '42501')) throw error
    }
  }
}

// A large object belongs to a role and not to a tenant, and anyone may make one: a place outside of row security, where what
// a request of one tenant leaves, a request of another finds.
const closeLargeObjects = [
  'lo_creat(integer)',
  'lo_create(oid)',
  'lo_from_bytea(oid, bytea)',
  'lo_open(oid, integer)',
  'lo_put(oid, bigint, bytea)',
  'lo_get(oid)',
  'lo_get(oid, bigint, integer)',
]
  .map((name) => `revoke execute on function pg_catalog.${name} from public;`)
  .join('\n      ')

/** A secret that tenant assertions are made with. */
export interface AssertionSecret {
  /** 1 to 32 of A-Z a-z 0-9 _ - */
  readonly keyId: string
  /** 32 to 64 bytes. */
  readonly secret: Buffer
  /** When PostgreSQL stops to accept it; absent: never. */
  readonly notAfter?: Date
}

/**
 * Stores a secret, or replaces the one with the same key id. One that was ended stays ended where no end is given: an operator has
 * put it out, and a migration must not bring it back. `migratorConnectionString` is of the migrator, after the
 * tenancy schema was migrated.
 */
export async function setAssertionSecret(
  migratorConnectionString: string,
  { keyId, secret, notAfter }: AssertionSecret,
): Promise<void> {
  await using connection = await connect(migratorConnectionString)
  await connection.client.query(`set role ${ownerRole}`)
  await connection.client.query(
    `insert into tenancy.assertion_secret (key_id, secret, not_after)
     values ($1, $2, $3)
     on conflict (key_id) do update
        set secret = excluded.secret,
            not_after = coalesce(excluded.not_after, assertion_secret.not_after)
      where (assertion_secret.secret, assertion_secret.not_after)
            is distinct from (excluded.secret, coalesce(excluded.not_after, assertion_secret.not_after))`,
    [keyId, secret, notAfter ?? null],
  )
}

/**
 * Ends the acceptance of every secret that is not named, ten minutes from now: longer than any assertion lives. Gives the
 * key ids that it has ended.
 */
export async function retireAssertionSecrets(
  migratorConnectionString: string,
  keep: readonly string[],
): Promise<readonly string[]> {
  await using connection = await connect(migratorConnectionString)
  await connection.client.query(`set role ${ownerRole}`)
  const { rows } = await connection.client.query<{ key_id: string }>(
    `update tenancy.assertion_secret
        set not_after = now() + interval '10 minutes'
      where key_id <> all ($1) and not_after is null
      returning key_id`,
    [keep],
  )
  return rows.map((row) => row.key_id)
}

async function ensureRole(client: Client, role: string, login: 'login' | 'nologin'): Promise<void> {
  const { rows } = await client.query<{ fits: boolean }>(
    `select rolcanlogin = $2
            and not (rolsuper or rolbypassrls or rolcreatedb or rolcreaterole or rolreplication or rolinherit) as fits
       from pg_roles
      where rolname = $1`,
    [role, login === 'login'],
  )
  const [found] = rows
  if (found?.fits) return
  await client.query(`${found === undefined ? 'create' : 'alter'} role ${escapeIdentifier(role)} ${login} ${closed}`)
}

const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

/** Both logins of a service's role: a password for each that the text names, and none for the other. */
async function ensureLogins(client: Client, name: (typeof services)[number], text: string): Promise<void> {
  const [role, second] = [loginRoles[name], secondLogins[name]]
  await ensureRole(client, second, 'login')
  await ensureMember(client, second, role)
  await ensureSettings(client, second, { ...runtimeSettings, role })
  const { a, b } = loginsOf(text)
  await ensurePassword(client, role, a)
  await ensurePassword(client, second, b)
}

/** The member can take on the role, but has none of its rights before it does. */
async function ensureMember(client: Client, member: string, role: string): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_auth_members
      where roleid = $1::regrole and member = $2::regrole and set_option and not inherit_option and not admin_option`,
    [role, member],
  )
  if (rowCount !== 0) return
  await client.query(
    `grant ${escapeIdentifier(role)} to ${escapeIdentifier(member)} with set true, inherit false, admin false`,
  )
}

/** The role's settings and no others: a role may change its own, so one that was taken over may have. */
async function ensureSettings(client: Client, role: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const { rows } = await client.query<{ settings: string[] }>(
    "select coalesce(rolconfig, '{}') as settings from pg_roles where rolname = $1",
    [role],
  )
  const wanted = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  if (wanted.toSorted().join('\n') === (rows[0]?.settings ?? []).toSorted().join('\n')) return
  await client.query(`alter role ${escapeIdentifier(role)} reset all`)
  for (const [name, value] of Object.entries(settings)) {
    await client.query(`alter role ${escapeIdentifier(role)} set ${name} = ${escapeLiteral(value)}`)
  }
}

/** Without a password nobody can log in. */
async function ensurePassword(client: Client, role: string, password: string | undefined): Promise<void> {
  const { rows } = await client.query<{ verifier: string | null }>(
    'select rolpassword as verifier from pg_authid where rolname = $1',
    [role],
  )
  if (password === undefined) {
    if (rows[0]?.verifier !== null) await client.query(`alter role ${escapeIdentifier(role)} password null`)
    return
  }
  if (isVerifierOf(rows[0]?.verifier ?? '', password)) return
  const verifier = makeVerifier(password, randomBytes(16), scramIterations)
  await client.query(`alter role ${escapeIdentifier(role)} password ${escapeLiteral(verifier)}`)
}

// PostgreSQL's own default. Our passwords are random, so more rounds would only make each new connection slower.
const scramIterations = 4096

/** The form in which PostgreSQL stores a password, RFC 5802 section 3: it proves a password without holding it. */
function makeVerifier(password: string, salt: Buffer, iterations: number): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  const clientKey = createHmac('sha256', salted).update('Client Key').digest()
  const storedKey = createHash('sha256').update(clientKey).digest('base64')
  const serverKey = createHmac('sha256', salted).update('Server Key').digest('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

function isVerifierOf(verifier: string, password: string): boolean {
  const match = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$/.exec(verifier)
  if (match?.[1] === undefined || match[2] === undefined) return false
  const expected = makeVerifier(password, Buffer.from(match[2], 'base64'), Number(match[1]))
  return expected.length === verifier.length && timingSafeEqual(Buffer.from(expected), Buffer.from(verifier))
}
