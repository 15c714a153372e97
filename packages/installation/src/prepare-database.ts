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

export type RoleName = LoginRole

/** In the order of their migrations. */
const schemas = ['keys', 'universe', 'findings', 'evidence', 'sync'] as const

// The same path from src and dist.
const servicesFolder = join(import.meta.dirname, '..', '..', '..', 'services')

export interface DatabaseOptions {
  readonly database: string
  /** A superuser, or a role with CREATEROLE and CREATEDB. Without it, roles and database must exist. */
  readonly superuser?: {
    url(database: string): string
    readonly passwords: RolePasswords
  }
  /** A secret. */
  readonly migratorUrl: string
  /** The keys that PostgreSQL accepts, as configuration text. */
  readonly assertionKeys: string
  /** Rejects assertions of all other keys, at the end of a rotation. */
  readonly retireOtherAssertionKeys?: boolean
  /** Without it, the failure is thrown. */
  readonly onFailure?: (schema: string, error: unknown) => void
}

export interface PreparedDatabase {
  readonly applied: readonly string[]
  readonly retired: readonly string[]
  /** PUBLIC may create large objects. Only a superuser can revoke that. */
  readonly largeObjectsOpen?: true
}

/** Safe to repeat and to run concurrently. */
export async function prepareDatabase(options: DatabaseOptions): Promise<PreparedDatabase> {
  const { database, superuser, migratorUrl: connectionString } = options
  if (superuser !== undefined) {
    await ensureRoles(superuser.url('postgres'), superuser.passwords)
    await ensureDatabase(superuser.url('postgres'), database)
  }
  const largeObjectsOpen = await closePublicSchema(connectionString)
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

/** Returns whether PUBLIC may create large objects. */
async function closePublicSchema(migratorUrl: string): Promise<boolean> {
  let rows: unknown[] = []
  await asOwner(migratorUrl, 'postern.database', async (run) => {
    await run('revoke all on schema public from public')
    const found = await run("select where has_function_privilege('public', 'lo_creat(integer)', 'execute')")
    rows = found.rows
  })
  return rows.length > 0
}

/** A secret. Uses the first of the role's logins. */
export function roleUrl(role: LoginRole, passwords: string, authority: string, database: string): string {
  const [{ login, password }] = parseLoginPasswords(passwords)
  const user = login === 'b' && role !== 'migrator' ? secondLogins[role] : loginRoles[role]
  return `postgres://${user}:${encodeURIComponent(password)}@${authority}/${encodeURIComponent(database)}`
}

export function rolePasswords({ passwords }: Secrets): RolePasswords {
  const { migrator, keys, findings, universe, evidence, sync } = passwords
  return { migrator, keys, findings, universe, evidence, sync }
}
