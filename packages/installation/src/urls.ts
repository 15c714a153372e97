import { join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import { DatabaseUrlError, parseDatabaseUrl } from '@postern/contracts/internal'
import { loginRoles, parseLoginPasswords, secondLogins } from '@postern/tenant-db'
import { type RedisClientName, redisClients, redisUserName } from './redis-users.ts'
import { readIfThere } from './secrets.ts'

/** Missing addresses are read from the folder, or default to the names in the compose file. */
export interface InstallationAddresses {
  /**
   * A pooler in transaction mode, or PostgreSQL: `host:port`, or several with optional parameters:
   * `host:port,host:port?target_session_attrs=read-write`.
   */
  readonly pooler?: string | undefined
  readonly postgres?: string | undefined
  /** `host:port`, or a URL without a password: `rediss://host:port`, `redis+sentinel://a:26379,b:26379/group`. */
  readonly redis?: string | undefined
  readonly database?: string | undefined
}

export interface Urls {
  /** `shared`: passwords of the user `default` in an older installation. */
  redis(component: RedisClientName, passwords: { readonly own: string; readonly shared: string | undefined }): string
  pooled(role: Upstream, passwords: string): string
  superuser(password: string): string
  migrator(password: string): string
}

const defaults = { pooler: 'pgbouncer:6432', postgres: 'postgres:5432', redis: 'redis:6379', database: 'postern' }

const files = {
  redis: redisClients.map((name) => join(name, 'POSTERN_REDIS_URL')),
  pooled: ['keys', 'findings', 'universe', 'evidence', 'sync'].map((name) => join(name, 'POSTERN_DATABASE_URL')),
  superuser: [join('migrate', 'POSTERN_SUPERUSER_URL')],
  migrator: [join('migrate', 'POSTERN_MIGRATOR_URL')],
} as const

/**
 * Existing URLs change only their password, so that a rotation keeps hosts and parameters. Throws if a URL is invalid.
 */
export async function readUrls(folder: string, given: InstallationAddresses): Promise<Urls> {
  for (const name of ['pooler', 'postgres'] as const) assertServer(name, given[name])
  assertRedis(given.redis)
  const existing = new Map<string, Url>()
  for (const name of Object.values(files).flat()) {
    const text = await readIfThere(join(folder, name))
    if (text === undefined) continue
    const url = parseUrl(text)
    if (url === undefined)
      throw new Error(`${join(folder, name)} contains no URL with a password. Correct or remove it`)
    existing.set(name, url)
  }
  const findFirst = (names: readonly string[]): Url | undefined => names.flatMap((name) => existing.get(name) ?? [])[0]

  /** Without `own`, the other files name the server. */
  function postgresUrl(
    server: 'pooler' | 'postgres',
    own: Url | undefined,
    others: readonly string[],
    fresh: { readonly user: string; readonly path: string; readonly password: string },
  ): string {
    const known = own ?? findFirst(others)
    const [address, query] = given[server]?.split('?') ?? []
    return formatUrl({
      scheme: known?.scheme ?? 'postgres',
      user: fresh.user,
      password: fresh.password,
      address: address ?? known?.address ?? defaults[server],
      path: fresh.path,
      // Parameters such as sslmode=verify-full stay unless the caller gives others.
      query: query ?? known?.query ?? '',
    })
  }
  const named = given.database === undefined ? undefined : encodeURIComponent(given.database)
  const database = named ?? findFirst([...files.migrator, ...files.pooled])?.path ?? defaults.database

  return {
    redis: (component, { own, shared }) => {
      const known = existing.get(join(component, 'POSTERN_REDIS_URL')) ?? findFirst(files.redis)
      const written = given.redis?.includes('://') === true ? parseUrl(given.redis) : undefined
      const login = redisLogin(component, (written ?? known)?.user, shared !== undefined)
      const [{ password }] = parseLoginPasswords(login.isOwn ? own : (shared ?? own))
      const plain = { scheme: 'redis', address: defaults.redis, path: '', query: '' }
      const secret = { user: login.user, password }
      if (given.redis === undefined) return formatUrl({ ...plain, ...known, ...secret })
      if (written !== undefined) return formatUrl({ ...plain, ...written, ...secret })
      const scheme = known?.scheme.startsWith('rediss') === true ? 'rediss' : 'redis'
      return formatUrl({ ...plain, ...secret, scheme, address: given.redis })
    },
    pooled: (role, passwords) => {
      const [{ login, password }] = parseLoginPasswords(passwords)
      const user = login === 'b' ? secondLogins[role] : loginRoles[role]
      const own = existing.get(join(role, 'POSTERN_DATABASE_URL'))
      // A service may have its own database.
      const path = given.database === undefined ? (own?.path ?? database) : database
      return postgresUrl('pooler', own, files.pooled, { user, path, password })
    },
    superuser: (password) => {
      const own = existing.get(files.superuser[0])
      const fresh = { user: own?.user ?? 'postgres', path: own?.path ?? 'postgres', password }
      return postgresUrl('postgres', own, files.migrator, fresh)
    },
    migrator: (password) =>
      postgresUrl('postgres', existing.get(files.migrator[0]), files.superuser, {
        user: loginRoles.migrator,
        path: database,
        password,
      }),
  }
}

function redisLogin(
  component: RedisClientName,
  named: string | undefined,
  isShared: boolean,
): { readonly user: string; readonly isOwn: boolean } {
  const own = redisUserName(component)
  const isOurs = redisClients.some((name) => named === redisUserName(name))
  if (isOurs || ((named ?? '') === '' && !isShared)) return { user: own, isOwn: true }
  return { user: named ?? '', isOwn: false }
}

/** Unparsed, because an address can name several servers. */
interface Url {
  readonly scheme: string
  readonly user: string
  readonly password: string
  readonly address: string
  readonly path: string
  readonly query: string
}

function parseUrl(text: string): Url | undefined {
  const parts = /^([a-z+]+):\/\/(?:([^:@/?#\s]*)(?::([^@/?#\s]*))?@)?([^@/?#\s]+)(?:\/([^?#\s]*))?(?:\?(\S*))?$/.exec(
    text,
  )
  if (parts === null) return undefined
  const [, scheme = '', user = '', password = '', address = '', path = '', query = ''] = parts
  return { scheme, user, password, address, path, query }
}

function formatUrl({ scheme, user, password, address, path, query }: Url): string {
  return `${scheme}://${user}:${password}@${address}${path === '' ? '' : `/${path}`}${query === '' ? '' : `?${query}`}`
}

const hostForm = String.raw`(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5}`
const serverForm = new RegExp(String.raw`^${hostForm}(?:,${hostForm})*(?:\?[\w.~%&=/-]*)?$`, 'i')

function assertServer(name: string, address: string | undefined): void {
  if (address === undefined) return
  if (!serverForm.test(address))
    throw new Error(
      `the address of ${name} must be host:port, host:port?sslmode=verify-full, or host:port,host:port?target_session_attrs=read-write`,
    )
  try {
    parseDatabaseUrl(`postgres://${address}`)
  } catch (error) {
    if (!(error instanceof DatabaseUrlError)) throw error
    throw new Error(`the address of ${name} ${error.message}`, { cause: error })
  }
}

function assertRedis(address: string | undefined): void {
  const hosts = '[\\w.:\\[\\]-]+:\\d{1,5}'
  const url = new RegExp(
    `^(?:rediss?(?:\\+sentinel|\\+cluster)?://(?:[\\w.~%-]+@)?)?${hosts}(?:,${hosts})*(?:/[\\w.-]*)?$`,
  )
  if (address === undefined || url.test(address)) return
  throw new Error('the address of Redis must be host:port, or a URL without a password such as rediss://host:port')
}
