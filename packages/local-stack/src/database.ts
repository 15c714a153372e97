import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseKeyRing } from '@postern/signed-context'
import type { LoginRole, RolePasswords } from '@postern/tenant-db'
import {
  ensureDatabase,
  ensureRoles,
  loginRoles,
  migrate,
  setAssertionSecret,
  tenancyMigrations,
} from '@postern/tenant-db'
import { repositoryRoot } from './paths.ts'
import { loopback } from './ports.ts'
import type { Secrets } from './secrets.ts'

/** Services with a schema, in the order in which their migrations are applied. */
const schemas = ['keys', 'universe', 'findings', 'evidence', 'sync'] as const

export interface DatabaseOptions {
  readonly database: string
  /** Connection string of the superuser for a database. */
  superuserUrl(database: string): string
  /** Connection string of a role that logs in, for the database. */
  url(role: LoginRole): string
  readonly passwords: RolePasswords
  /** The ring whose assertions PostgreSQL is to believe, as configuration text. */
  readonly assertionKeys: string
  /** Told of a service whose migrations fail; the others go on. Without it the failure is thrown. */
  readonly onFailure?: (schema: string, error: unknown) => void
}

/** Brings roles, database and every schema to what this release needs. Writes nothing where nothing is to be done. */
export async function prepareDatabase(options: DatabaseOptions): Promise<void> {
  const { database, passwords } = options
  await ensureRoles(options.superuserUrl('postgres'), passwords)
  await ensureDatabase(options.superuserUrl('postgres'), database)
  const connectionString = options.url('migrator')
  await migrate({ connectionString, schema: 'tenancy', directory: tenancyMigrations })
  const { current, previous } = parseKeyRing(options.assertionKeys)
  for (const key of previous === undefined ? [current] : [current, previous]) {
    await setAssertionSecret(connectionString, { keyId: key.id, secret: key.secret })
  }
  for (const schema of schemas) {
    const directory = join(repositoryRoot, 'services', schema, 'migrations')
    try {
      if (existsSync(directory)) await migrate({ connectionString, schema, directory })
    } catch (error) {
      if (options.onFailure === undefined) throw error
      options.onFailure(schema, error)
    }
  }
}

/** Connection string of a role. A secret: it holds the password. */
export function roleUrl(role: LoginRole, password: string, port: number, database: string): string {
  return `postgres://${loginRoles[role]}:${encodeURIComponent(password)}@${loopback}:${port}/${encodeURIComponent(database)}`
}

/** The passwords of the roles that log in. */
export function rolePasswords({ passwords }: Secrets): RolePasswords {
  const { migrator, keys, findings, universe, evidence, sync } = passwords
  return { migrator, keys, findings, universe, evidence, sync }
}
