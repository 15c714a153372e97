import { hash } from 'node:crypto'
import { parseLoginPasswords } from '@postern/tenant-db'

/** Components that log in to Redis, each as a user of its own. */
export const redisClients = ['keys', 'gateway', 'console'] as const
export type RedisClientName = (typeof redisClients)[number]

/** `admin` is for operators: it may do everything, and no component has its password. */
export const redisLogins = [...redisClients, 'admin'] as const
export type RedisLogin = (typeof redisLogins)[number]

/** For each login its passwords, in the form that `parseLoginPasswords` reads: two while one is replaced. */
export type RedisPasswords = Readonly<Record<RedisLogin, string>>

/** Connecting, the health check, and finding one's way in a cluster. */
const common = '+ping +client|setname +cluster|slots +cluster|info +asking'

/**
 * What each user may do, in the ACL syntax of Redis 7 and Valkey. Commands are listed one by one: a category can grow with a release of
 * Redis. None is in @admin or @dangerous.
 */
const rights: Readonly<Record<RedisLogin, string>> = {
  keys: `~postern:key:* &postern:revocations -@all ${common} +eval +get +set +time +publish`,
  // Reads records and hears announcements, and can write and make none. A selector gives PUBLISH to heartbeats only.
  gateway:
    '%R~postern:key:* ~postern:rate:* ~postern:failed:* ~postern:failed-tokens:* &postern:revocations &postern:heartbeat:* ' +
    `-@all ${common} +get +eval +time +incr +incrby +pexpire +subscribe (+publish &postern:heartbeat:*)`,
  console:
    `~postern:console:* -@all ${common} +get +set +del +unlink +exists +eval +hset +hmget +sadd +smembers +pexpireat ` +
    '+multi +exec',
  admin: '~* &* +@all',
}

/** Name of the user in Redis. */
export function redisUserName(login: RedisLogin): string {
  return `postern-${login}`
}

/**
 * Lines of an ACL file that define all users, with hashes in the place of passwords. Without `user ` each is what ACL SETUSER takes.
 * The user `default`, which has every right, is on only for installations that still have its password (`sharedPasswords`).
 */
export function formatRedisUsers(passwords: RedisPasswords, sharedPasswords?: string): string[] {
  return [
    sharedPasswords === undefined
      ? 'user default reset off'
      : `user default reset on ${formatHashes(sharedPasswords)} ${rights.admin}`,
    ...redisLogins.map(
      (login) => `user ${redisUserName(login)} reset on ${formatHashes(passwords[login])} ${rights[login]}`,
    ),
  ]
}

function formatHashes(passwords: string): string {
  return parseLoginPasswords(passwords)
    .map(({ password }) => `#${hash('sha256', password)}`)
    .join(' ')
}
