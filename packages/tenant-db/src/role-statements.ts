import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto'
import { escapeIdentifier, escapeLiteral } from 'pg'

export type RoleKind = 'login' | 'nologin'

export function createRoleSql(role: string, login: RoleKind): string {
  return `create role ${escapeIdentifier(role)} ${login} nosuperuser nobypassrls nocreatedb nocreaterole noreplication noinherit`
}

/** Without inheriting its rights. */
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

/** Without a password, the login is closed. */
export function passwordSql(role: string, password: string | undefined): string {
  if (password === undefined) return `alter role ${escapeIdentifier(role)} password null valid until '-infinity'`
  const verifier = makeVerifier(password, randomBytes(16), scramIterations)
  return `alter role ${escapeIdentifier(role)} password ${escapeLiteral(verifier)} valid until 'infinity'`
}

/** Sets a locale that is equal on all machines and never changes under an index. */
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

/** Run as the owner. Temporary tables would precede every search_path. */
export function databaseGrantsSql(database: string, logins: readonly string[]): readonly string[] {
  const name = escapeIdentifier(database)
  return [
    `revoke all on database ${name} from public`,
    `grant connect on database ${name} to ${logins.map(escapeIdentifier).join(', ')}`,
  ]
}

/** Run as a superuser in the database: large objects belong to roles and would leak data between tenants. */
export const closeLargeObjectsSql: readonly string[] = [
  'lo_creat(integer)',
  'lo_create(oid)',
  'lo_from_bytea(oid, bytea)',
  'lo_open(oid, integer)',
  'lo_put(oid, bigint, bytea)',
  'lo_get(oid)',
  'lo_get(oid, bigint, integer)',
].map((name) => `revoke execute on function pg_catalog.${name} from public`)

// Passwords are random, so more rounds would only slow down connections.
const scramIterations = 4096

/** Returns a SCRAM verifier (RFC 5802 §3). */
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
