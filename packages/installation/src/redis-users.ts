import { hash } from 'node:crypto'
import { parseLoginPasswords } from '@postern/tenant-db'

export const redisClients = ['keys', 'gateway', 'console'] as const
export type RedisClientName = (typeof redisClients)[number]

/** `admin` is for operators and has every right. */
export const redisLogins = [...redisClients, 'admin'] as const
export type RedisLogin = (typeof redisLogins)[number]

export type RedisPasswords = Readonly<Record<RedisLogin, string>>

/** Connection, health check and cluster topology. */
const common = '+ping +client|setname +cluster|slots +cluster|info +asking'

/**
 * ACL syntax (Redis 7, Valkey). Listed one by one, because categories grow with releases. No listed command is in
 * @admin or @dangerous.
 */
const rights: Readonly<Record<RedisLogin, string>> = {
  keys: `~postern:key:* &postern:revocations -@all ${common} +eval +get +set +time +publish`,
  // Writes no records. A selector allows PUBLISH only for heartbeats.
  gateway:
    '%R~postern:key:* ~postern:rate:* ~postern:failed:* ~postern:failed-tokens:* &postern:revocations &postern:heartbeat:* ' +
    `-@all ${common} +get +eval +time +incr +incrby +pexpire +subscribe (+publish &postern:heartbeat:*)`,
  console:
    `~postern:console:* -@all ${common} +get +set +del +unlink +exists +eval +hset +hmget +sadd +smembers +pexpireat ` +
    '+multi +exec',
  admin: '~* &* +@all',
}

export function redisUserName(login: RedisLogin): string {
  return `postern-${login}`
}

/**
 * Returns the lines of an ACL file. Without the prefix `user `, a line is the input of ACL SETUSER. `default` is
 * enabled only with `sharedPasswords`.
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
