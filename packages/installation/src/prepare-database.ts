import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseKeyRing } from '@postern/signed-context'
import type { LoginRole, RolePasswords } from '@postern/tenant-db'
import {
  asOwner,
  ensureDatabase,
  ensureRoles,
  loginRoles,
  migrate,
  parseLoginPasswords,
  retireAssertionSecrets,
  secondLogins,
  setAssertionSecret,
  tenancyMigrations,
} from '@postern/tenant-db'
import { prepareQueue } from './prepare-queue.ts'
import type { Secrets } from './secrets.ts'

/** Who logs in to PostgreSQL, beside the superuser. */
export type RoleName = LoginRole

/** Services with a schema, in the order in which their migrations are applied. */
const schemas = ['keys', 'universe', 'findings', 'evidence', 'sync'] as const

// From src as from dist.
const servicesFolder = join(import.meta.dirname, '..', '..', '..', 'services')

export interface DatabaseOptions {
  readonly database: string
  /**
   * Makes roles and database: a superuser, or a role with CREATEROLE and CREATEDB. Without it both must be there, and passwords
   * stay what they are.
   */
  readonly superuser?: {
    /** Connection string of this role for a database. */
    url(database: string): string
    readonly passwords: RolePasswords
  }
  /** Connection string of the migrator, for the database. */
  readonly migratorUrl: string
  /** The ring whose assertions PostgreSQL is to believe, as configuration text. */
  readonly assertionKeys: string
  /** Makes PostgreSQL refuse assertions of every key that is not in the ring: the end of a rotation. */
  readonly retireOtherAssertionKeys?: boolean
  /** Told of a service whose migrations fail; the others go on. Without it the failure is thrown. */
  readonly onFailure?: (schema: string, error: unknown) => void
}

/** What was done: migrations as `schema/file`, and the ids of the assertion keys that are refused from now on. */
export interface PreparedDatabase {
  readonly applied: readonly string[]
  readonly retired: readonly string[]
  /** Every role of the database may make large objects, and only a superuser can change that. */
  readonly largeObjectsOpen?: true
}

/**
 * Brings roles, database and every schema to what this release needs. Writes nothing where nothing is to be done, and
 * may run in several processes at once.
 */
export async function prepareDatabase(options: DatabaseOptions): Promise<PreparedDatabase> {
  const { database, superuser, migratorUrl: connectionString } = options
  if (superuser !== undefined) {
    await ensureRoles(superuser.url('postgres'), superuser.passwords)
    await ensureDatabase(superuser.url('postgres'), database)
  }
  const largeObjectsOpen = await closeSchema(connectionString)
  const applied: string[] = []
  const apply = async (schema: string, directory: string | URL): Promise<void> => {
    const done = await migrate({ connectionString, schema, directory })
    applied.push(...done.applied.map((name) => `${schema}/${name}`))
  }
  await apply('tenancy', tenancyMigrations)
  const { current, previous } = parseKeyRing(options.assertionKeys)
  const keys = previous === undefined ? [current] : [current, previous]
  for (const { id, secret } of keys) await setAssertionSecret(connectionString, { keyId: id, secret })
  for (const schema of schemas) {
    const directory = join(servicesFolder, schema, 'migrations')
    try {
      if (existsSync(directory)) await apply(schema, directory)
    } catch (error) {
      if (options.onFailure === undefined) throw error
      options.onFailure(schema, error)
    }
  }
  await prepareQueue(connectionString)
  const retired =
    options.retireOtherAssertionKeys === true
      ? await retireAssertionSecrets(
          connectionString,
          keys.map(({ id }) => id),
        )
      : []
  return { applied, retired, ...(largeObjectsOpen && { largeObjectsOpen }) }
}

/** Closes what the owner of the database can close. Returns whether large objects are open, which are not the owner's. */
async function closeSchema(migratorUrl: string): Promise<boolean> {
  let rows: unknown[] = []
  await asOwner(migratorUrl, 'postern.database', async (run) => {
    await run('revoke all on schema public from public')
    const found = await run("select where has_function_privilege('public', 'lo_creat(integer)', 'execute')")
    rows = found.rows
  })
  return rows.length > 0
}

/**
 * Connection string of a role, by the login that is the first of its passwords (`parseLoginPasswords`). A secret: it holds a
 * password.
 */
export function roleUrl(role: LoginRole, passwords: string, authority: string, database: string): string {
  const [{ login, password }] = parseLoginPasswords(passwords)
  const user = login === 'b' && role !== 'migrator' ? secondLogins[role] : loginRoles[role]
  return `postgres://${user}:${encodeURIComponent(password)}@${authority}/${encodeURIComponent(database)}`
}

/** The passwords of the roles that log in. */
export function rolePasswords({ passwords }: Secrets): RolePasswords {
  const { migrator, keys, findings, universe, evidence, sync } = passwords
  return { migrator, keys, findings, universe, evidence, sync }
}
