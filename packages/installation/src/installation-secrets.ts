import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type LoginPassword, loginRoles, parseLoginPasswords, secondLogins } from '@postern/tenant-db'
import { type ComponentName, componentNames, filesOf, ringsOf } from './components.ts'
import { type RedisClientName, type RedisLogin, type RedisPasswords, formatRedisUsers } from './redis-users.ts'
import { type Secrets, complete, openSecrets } from './secrets.ts'
import { type InstallationAddresses, type Urls, readUrls } from './urls.ts'

/** Creates missing secrets, and a subfolder of files for each component. Returns the subfolders. */
export async function initSecrets(
  folder: string,
  addresses: InstallationAddresses = {},
): Promise<Readonly<Record<ComponentName, string>>> {
  const urls = await readUrls(folder, addresses)
  const secrets = await openSecrets(folder)
  const folders = new Map<ComponentName, string>()
  for (const component of componentNames) {
    const values = await valuesOf(component, secrets, urls)
    for (const name of filesOf(component)) {
      const value = values[name]
      if (value === undefined) throw new Error(`the file ${name} of ${component} has no content`)
      await secrets.put(join(component, name), value)
    }
    folders.set(component, join(folder, component))
  }
  return complete(componentNames, folders)
}

async function valuesOf(
  component: ComponentName,
  secrets: Secrets,
  urls: Urls,
): Promise<Readonly<Record<string, string>>> {
  const { rings, passwords } = secrets
  const values: Record<string, string> = {}
  const [shown, ...accepted] = accessKeys(passwords.store)
  const redis = redisPasswords(secrets)
  const redisUrl = (name: RedisClientName): string =>
    urls.redis(name, { own: redis[name], shared: secrets.sharedRedisPasswords })
  for (const ring of ringsOf(component)) values[ring] = rings[ring]
  switch (component) {
    case 'gateway':
      return { ...values, POSTERN_REDIS_URL: redisUrl(component) }
    case 'console':
      return {
        ...values,
        POSTERN_REDIS_URL: redisUrl(component),
        POSTERN_OIDC_CLIENT_SECRET: await readText(secrets.oidcClientSecretFile),
      }
    case 'keys':
      return {
        ...values,
        POSTERN_DATABASE_URL: urls.pooled('keys', passwords.keys),
        POSTERN_REDIS_URL: redisUrl(component),
      }
    case 'findings':
      return {
        ...values,
        POSTERN_DATABASE_URL: urls.pooled('findings', passwords.findings),
        POSTERN_CHECKPOINT_KEY: await readText(secrets.checkpointKeyFile),
      }
    case 'evidence':
      return {
        ...values,
        POSTERN_DATABASE_URL: urls.pooled('evidence', passwords.evidence),
        POSTERN_RECEIPT_KEY: await readText(secrets.receiptKeyFile),
        POSTERN_STORE_ACCESS_KEY_ID: shown.id,
        POSTERN_STORE_SECRET_ACCESS_KEY: shown.secret,
      }
    case 'universe':
    case 'sync':
      return { ...values, POSTERN_DATABASE_URL: urls.pooled(component, passwords[component]) }
    case 'migrate':
      return {
        ...values,
        POSTERN_SUPERUSER_URL: urls.superuser(passwords.superuser),
        POSTERN_MIGRATOR_URL: urls.migrator(passwords.migrator),
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
      return {
        'redis.conf': redisConfiguration,
        'users.acl': formatRedisUsers(redis, secrets.sharedRedisPasswords).join('\n'),
      }
    case 'store':
      return { 'store-users': [shown, ...accepted].map(({ id, secret }) => `${id} ${secret}`).join('\n') }
    default:
      return component satisfies never
  }
}

/** PgBouncer logs in to PostgreSQL as its client, so it needs the password of each login. */
function userList({ passwords }: Secrets): string {
  return (['keys', 'findings', 'universe', 'evidence', 'sync'] as const)
    .flatMap((role) =>
      parseLoginPasswords(passwords[role]).map(
        ({ login, password }) => `"${login === 'b' ? secondLogins[role] : loginRoles[role]}" "${password}"`,
      ),
    )
    .join('\n')
}

const redisConfiguration = [
  'aclfile /etc/postern/secrets/users.acl',
  'save ""',
  'appendonly no',
  'maxmemory 256mb',
  'maxmemory-policy volatile-lru',
].join('\n')

export function redisPasswords({ passwords }: Pick<Secrets, 'passwords'>): RedisPasswords {
  return {
    keys: passwords['redis-keys'],
    gateway: passwords['redis-gateway'],
    console: passwords['redis-console'],
    admin: passwords['redis-admin'],
  } satisfies Record<RedisLogin, string>
}

interface AccessKey {
  readonly id: string
  readonly secret: string
}

function accessKeys(passwords: string): readonly [AccessKey, ...AccessKey[]] {
  const [first, ...others] = parseLoginPasswords(passwords)
  return [accessKey(first), ...others.map(accessKey)]
}

function accessKey({ login, password }: LoginPassword): AccessKey {
  return { id: login === 'b' ? 'postern:evidence-b' : 'postern:evidence', secret: password }
}

async function readText(path: string): Promise<string> {
  return (await readFile(path, 'utf8')).trim()
}
