import { hash } from 'node:crypto'
import { parseLoginPasswords } from '@postern/tenant-db'

/** Components that log in to Redis, each as its own user. */
export const redisClients = ['keys', 'gateway', 'console'] as const
export type RedisClientName = (typeof redisClients)[number]

/** `admin` is for operators. It has every right, and no component knows its password. */
export const redisLogins = [...redisClients, 'admin'] as const
export type RedisLogin = (typeof redisLogins)[number]

/** The passwords of each login as `parseLoginPasswords` reads them: two during a rotation. */
export type RedisPasswords = Readonly<Record<RedisLogin, string>>

/** Connection, health check and cluster topology. */
const common = '+ping +client|setname +cluster|slots +cluster|info +asking'

/**
 * The rights of each user in ACL syntax (Redis 7, Valkey). Commands are listed one by one, because categories grow with
 * releases. None is in @admin or @dangerous.
 */
const rights: Readonly<Record<RedisLogin, string>> = {
  keys: `~postern:key:* &postern:revocations -@all ${common} +eval +get +set +time +publish`,
  // Reads records and announcements but writes none. A selector allows PUBLISH only for heartbeats.
  gateway:
    '%R~postern:key:* ~postern:rate:* ~postern:failed:* ~postern:failed-tokens:* &postern:revocations &postern:heartbeat:* ' +
    `-@all ${common} +get +eval +time +incr +incrby +pexpire +subscribe (+publish &postern:heartbeat:*)`,
  console:
    `~postern:console:* -@all ${common} +get +set +del +unlink +exists +eval +hset +hmget +sadd +smembers +pexpireat ` +
    '+multi +exec',
  admin: '~* &* +@all',
}

/** Returns the name of the user in Redis. */
export function redisUserName(login: RedisLogin): string {
  return `postern-${login}`
}

/**
 * Returns the lines of an ACL file with password hashes. Without the prefix `user `, a line is the input of ACL
 * SETUSER. The user `default` is enabled only for installations that still use its password (`sharedPasswords`).
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
