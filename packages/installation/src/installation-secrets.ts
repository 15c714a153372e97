import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loginRoles, parseLoginPasswords, secondLogins } from '@postern/tenant-db'
import { type ComponentName, componentNames, filesOf, ringsOf } from './components.ts'
import { roleUrl } from './prepare-database.ts'
import { type Secrets, openSecrets } from './secrets.ts'

/** Where the parts of an installation find PostgreSQL and Redis: `host:port`. */
export interface InstallationAddresses {
  /** What services connect to: a pooler in transaction mode, or PostgreSQL itself. */
  readonly pooler: string
  /** PostgreSQL itself, for migrations. */
  readonly postgres: string
  readonly redis: string
  readonly database: string
}

/**
 * Makes what is missing in the folder, and a folder below it for each component with exactly the files that it needs,
 * made anew each time. Running it twice changes no secret. Gives the components' folders.
 */
export async function initSecrets(
  folder: string,
  addresses: InstallationAddresses,
): Promise<Readonly<Record<ComponentName, string>>> {
  const secrets = await openSecrets(folder)
  const folders: [ComponentName, string][] = []
  for (const component of componentNames) {
    const values = await valuesOf(component, secrets, addresses)
    for (const name of filesOf(component)) {
      const value = values[name]
      if (value === undefined) throw new Error(`nothing is known to put into ${name} of ${component}`)
      await secrets.put(join(component, name), value)
    }
    folders.push([component, join(folder, component)])
  }
  return complete(folders)
}

function complete(folders: readonly (readonly [ComponentName, string])[]): Record<ComponentName, string> {
  const found = new Map(folders)
  const of = (name: ComponentName): string => found.get(name) ?? ''
  return {
    gateway: of('gateway'),
    console: of('console'),
    keys: of('keys'),
    findings: of('findings'),
    universe: of('universe'),
    evidence: of('evidence'),
    sync: of('sync'),
    migrate: of('migrate'),
    operator: of('operator'),
    postgres: of('postgres'),
    pgbouncer: of('pgbouncer'),
    redis: of('redis'),
  }
}

async function valuesOf(
  component: ComponentName,
  secrets: Secrets,
  { pooler, postgres, redis, database }: InstallationAddresses,
): Promise<Readonly<Record<string, string>>> {
  const { rings, passwords } = secrets
  const values: Record<string, string> = {}
  for (const ring of ringsOf(component)) values[ring] = rings[ring]
  switch (component) {
    case 'gateway':
      return { ...values, POSTERN_REDIS_URL: redisUrl(passwords.redis, redis) }
    case 'console':
      return {
        ...values,
        POSTERN_REDIS_URL: redisUrl(passwords.redis, redis),
        POSTERN_OIDC_CLIENT_SECRET: await readText(secrets.oidcClientSecretFile),
      }
    case 'keys':
      return {
        ...values,
        POSTERN_DATABASE_URL: roleUrl('keys', passwords.keys, pooler, database),
        POSTERN_REDIS_URL: redisUrl(passwords.redis, redis),
      }
    case 'findings':
      return {
        ...values,
        POSTERN_DATABASE_URL: roleUrl('findings', passwords.findings, pooler, database),
        POSTERN_CHECKPOINT_KEY: await readText(secrets.checkpointKeyFile),
      }
    case 'evidence':
      return {
        ...values,
        POSTERN_DATABASE_URL: roleUrl('evidence', passwords.evidence, pooler, database),
        POSTERN_RECEIPT_KEY: await readText(secrets.receiptKeyFile),
      }
    case 'universe':
    case 'sync':
      return { ...values, POSTERN_DATABASE_URL: roleUrl(component, passwords[component], pooler, database) }
    case 'migrate':
      return {
        ...values,
        POSTERN_SUPERUSER_URL: `postgres://postgres:${passwords.superuser}@${postgres}/postgres`,
        POSTERN_MIGRATOR_URL: roleUrl('migrator', passwords.migrator, postgres, database),
        POSTERN_PASSWORD_KEYS: passwords.keys,
        POSTERN_PASSWORD_FINDINGS: passwords.findings,
        POSTERN_PASSWORD_UNIVERSE: passwords.universe,
        POSTERN_PASSWORD_EVIDENCE: passwords.evidence,
        POSTERN_PASSWORD_SYNC: passwords.sync,
      }
    case 'operator':
      return values
    case 'postgres':
      return { POSTGRES_PASSWORD: passwords.superuser }
    case 'pgbouncer':
      return { 'userlist.txt': userList(secrets) }
    case 'redis':
      return { 'redis.conf': redisConfiguration(passwords.redis) }
    default:
      return component satisfies never
  }
}

function redisUrl(passwords: string, address: string): string {
  return `redis://:${parseLoginPasswords(passwords)[0].password}@${address}`
}

/** PgBouncer logs in to PostgreSQL as whoever logged in to it, and needs each password for that: of both logins, where there are two. */
function userList({ passwords }: Secrets): string {
  return (['keys', 'findings', 'universe', 'evidence', 'sync'] as const)
    .flatMap((role) =>
      parseLoginPasswords(passwords[role]).map(
        ({ login, password }) => `"${login === 'b' ? secondLogins[role] : loginRoles[role]}" "${password}"`,
      ),
    )
    .join('\n')
}

/** A cache that loses everything with its process, which is what Postern expects of it. Every password that is there is accepted. */
function redisConfiguration(passwords: string): string {
  const accepted = parseLoginPasswords(passwords).map(({ password }) => `>${password}`)
  return [
    `user default on ~* &* +@all ${accepted.join(' ')}`,
    'save ""',
    'appendonly no',
    'maxmemory 256mb',
    'maxmemory-policy volatile-lru',
  ].join('\n')
}

async function readText(path: string): Promise<string> {
  return (await readFile(path, 'utf8')).trim()
}
