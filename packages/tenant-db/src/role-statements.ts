import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto'
import { escapeIdentifier, escapeLiteral } from 'pg'

/** Whether somebody logs in as the role. */
export type RoleKind = 'login' | 'nologin'

export function createRoleSql(role: string, login: RoleKind): string {
  return `create role ${escapeIdentifier(role)} ${login} nosuperuser nobypassrls nocreatedb nocreaterole noreplication noinherit`
}

/** The member can take on the role, but has none of its rights before it does. */
export function memberSql(member: string, role: string): string {
  return `grant ${escapeIdentifier(role)} to ${escapeIdentifier(member)} with set true, inherit false, admin false`
}

export function settingsSql(role: string, settings: Readonly<Record<string, string>>): readonly string[] {
  return [
    `alter role ${escapeIdentifier(role)} reset all`,
    ...Object.entries(settings).map(
      ([name, value]) => `alter role ${escapeIdentifier(role)} set ${name} = ${escapeLiteral(value)}`,
    ),
  ]
}

/** Gives the role a password, as its verifier. Without one nobody can log in, which `pg_roles` shows by the date. */
export function passwordSql(role: string, password: string | undefined): string {
  if (password === undefined) return `alter role ${escapeIdentifier(role)} password null valid until '-infinity'`
  const verifier = makeVerifier(password, randomBytes(16), scramIterations)
  return `alter role ${escapeIdentifier(role)} password ${escapeLiteral(verifier)} valid until 'infinity'`
}

/** The locale is the same on every machine and never changes under an index. */
export function createDatabaseSql(database: string, owner: string): string {
  return `create database ${escapeIdentifier(database)} owner ${escapeIdentifier(owner)} template template0 encoding 'UTF8'
    locale_provider builtin builtin_locale 'C.UTF-8' lc_collate 'C' lc_ctype 'C'`
}

export function mayBecomeOwnerSql(owner: string): string {
  return `pg_has_role(current_user, ${escapeLiteral(owner)}, 'set')`
}

export function becomeOwnerSql(owner: string): string {
  return `grant ${escapeIdentifier(owner)} to current_user with set true, inherit false, admin false`
}

/** For the owner: no CONNECT for strangers, and no temporary tables for anyone, which would come first on every search_path. */
export function databaseGrantsSql(database: string, logins: readonly string[]): readonly string[] {
  const name = escapeIdentifier(database)
  return [
    `revoke all on database ${name} from public`,
    `grant connect on database ${name} to ${logins.map(escapeIdentifier).join(', ')}`,
  ]
}

/**
 * For a superuser, in the database: a large object belongs to a role and not to a tenant, so what a request of one tenant
 * leaves in one, a request of another finds.
 */
export const closeLargeObjectsSql: readonly string[] = [
  'lo_creat(integer)',
  'lo_create(oid)',
  'lo_from_bytea(oid, bytea)',
  'lo_open(oid, integer)',
  'lo_put(oid, bigint, bytea)',
  'lo_get(oid)',
  'lo_get(oid, bigint, integer)',
].map((name) => `revoke execute on function pg_catalog.${name} from public`)

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

export function isVerifierOf(verifier: string, password: string): boolean {
  const match = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$/.exec(verifier)
  if (match?.[1] === undefined || match[2] === undefined) return false
  const expected = makeVerifier(password, Buffer.from(match[2], 'base64'), Number(match[1]))
  return expected.length === verifier.length && timingSafeEqual(Buffer.from(expected), Buffer.from(verifier))
}
