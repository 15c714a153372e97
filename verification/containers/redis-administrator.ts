import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseLoginPasswords } from '@postern/tenant-db'
import { expect } from 'vitest'
import type { Compose } from './compose.ts'

export async function readRedisPassword(system: Compose): Promise<string> {
  const text = await readFile(join(system.installation.secrets, 'password-redis-admin'), 'utf8')
  return parseLoginPasswords(text.trim())[0].password
}

/** The runbook's procedure: set the passwords of each Redis user from the file, without losing data. */
export async function applyRedisUsers(system: Compose, password: string): Promise<void> {
  const text = await readFile(join(system.installation.secrets, 'redis', 'users.acl'), 'utf8')
  for (const line of text.trim().split('\n')) {
    const [, user = '', ...rules] = line.split(' ')
    await runAclSetUser(system, password, 'ACL', 'SETUSER', user, ...rules)
  }
}

export async function runAclSetUser(system: Compose, password: string, ...command: readonly string[]): Promise<void> {
  const [redis = ''] = await system.containers('redis')
  const client = [
    'exec',
    '--env',
    'REDISCLI_AUTH',
    redis,
    'redis-cli',
    '--tls',
    '--insecure',
    '--user',
    'postern-admin',
  ]
  expect(await system.docker([...client, ...command], { env: { REDISCLI_AUTH: password } })).toBe('OK')
}
