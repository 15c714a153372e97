import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openSecrets, prepareDatabase, rolePasswords, roleUrl, rotateRing, rotationSteps } from '@postern/installation'
import { type Stack, startStack } from '@postern/local-stack'
import { createTestCaller, findFreePort, operator } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { expect } from 'vitest'
import { z } from 'zod'

/** A running system in a folder, as `npm start` makes it. One that is not open has no gateway. */
export interface System {
  readonly home: string
  readonly stack: Stack
  readonly gateway: string
  readonly superuser: (database: string) => string
}

const homes: string[] = []
const running: Stack[] = []

export async function start(
  home: string,
  env: Readonly<Record<string, string>> = {},
  { isOpen = true }: { readonly isOpen?: boolean } = {},
): Promise<System> {
  const ports = {
    postgres: await findFreePort(),
    redis: await findFreePort(),
    services: {
      keys: await findFreePort(),
      findings: await findFreePort(),
      universe: await findFreePort(),
      evidence: await findFreePort(),
      sync: await findFreePort(),
    },
    gateways: isOpen ? [{ port: await findFreePort(), adminPort: await findFreePort() }] : [],
  }
  const stack = await startStack({ home, ports, durable: true, env, log: () => undefined })
  running.push(stack)
  const { superuser } = stack.secrets.passwords
  return {
    home,
    stack,
    gateway: stack.services.gateways[0] ?? '',
    superuser: (database) => `postgres://postgres:${superuser}@127.0.0.1:${ports.postgres}/${database}`,
  }
}

export async function stop({ stack }: System): Promise<void> {
  running.splice(running.indexOf(stack), 1)
  await stack.stop()
}

export async function newHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'postern-recovery-'))
  homes.push(home)
  // PostgreSQL runs as another user, who must be able to pass.
  await chmod(home, 0o711)
  return home
}

async function copy(from: string, into: string): Promise<void> {
  await promisify(execFile)('cp', ['--archive', from, into])
}

export const idSchema = z.looseObject({ id: z.string() })
export const keySchema = idSchema.extend({ key: z.string() })

export function asOperator({ stack }: System) {
  const { rings } = stack.secrets
  const caller = createTestCaller({
    baseUrl: stack.services.url('keys'),
    keyName: 'operator',
    ring: rings.POSTERN_SIGNING_OPERATOR,
    assertionKeys: rings.POSTERN_ASSERTION_KEYS,
  })
  return async (path: string, body: unknown, tenantId: string = operator.tenantId): Promise<unknown> => {
    const answer = await caller.call({ ...operator, tenantId }, 'POST', path, { body })
    if (answer.status >= 300) throw new Error(answer.text)
    return answer.json
  }
}

const noteSchema = z.looseObject({ event: z.string(), time: z.string(), key_id: z.string(), tenant_id: z.string() })

/** Which keys were revoked since a time, as the log of the keys service tells. */
export async function revokedSince({ home }: System, since: Date): Promise<{ id: string; tenantId: string }[]> {
  const lines = (await readFile(join(home, 'logs', 'keys.log'), 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('{'))
  return lines.flatMap((line) => {
    const { data } = noteSchema.safeParse(JSON.parse(line))
    const isMeant = data?.event === 'key_revoked' && data.time >= since.toISOString()
    return isMeant ? [{ id: data.key_id, tenantId: data.tenant_id }] : []
  })
}

export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

export const assertionRing = 'POSTERN_ASSERTION_KEYS'

/** Replaces and retires the assertion key of a backup. */
export async function retireAssertionKey(home: string): Promise<void> {
  for (const step of rotationSteps) await rotateRing(join(home, 'secrets'), assertionRing, step)
}

/** The assertion keys that a database believes for good, as ids. */
export async function believedKeys(url: string): Promise<unknown[]> {
  const rows = await query(url, 'select key_id from tenancy.assertion_secret where not_after is null order by 1')
  return rows.map((row) => row['key_id'])
}

/** Step 4 of the runbook, `postern migrate --retire-assertion-keys`, with the secrets of a folder. */
export async function migrateAfterRestore(home: string, superuser: (database: string) => string): Promise<void> {
  const secrets = await openSecrets(join(home, 'secrets'))
  const passwords = rolePasswords(secrets)
  const { host } = new URL(superuser('postern'))
  const ring = secrets.rings[assertionRing]
  await prepareDatabase({
    database: 'postern',
    superuser: { url: superuser, passwords },
    migratorUrl: roleUrl('migrator', passwords.migrator, host, 'postern'),
    assertionKeys: ring,
    retireOtherAssertionKeys: true,
  })
  expect(await believedKeys(superuser('postern'))).toEqual([ring.split(':')[0]])
}

/** The steps of a base backup without pg_basebackup, in one session (PostgreSQL, "Low Level API"). */
export async function takeBaseBackup(from: System, home: string): Promise<void> {
  const target = join(home, 'postgres', 'data')
  const session = new Client({ connectionString: from.superuser('postgres') })
  await session.connect()
  await session.query(`select pg_backup_start('drill', true)`)
  // With owners and rights. Files that PostgreSQL removes meanwhile are none of the backup.
  await copy(join(from.home, 'postgres'), home).catch(() => undefined)
  const { rows } = await session.query<{ labelfile: string }>('select labelfile from pg_backup_stop()')
  await session.end()
  await copy(join(from.home, 'postgres', 'data', 'pg_wal'), target)
  for (const name of ['postmaster.pid', 'postmaster.opts']) await rm(join(target, name), { force: true })
  const label = join(target, 'backup_label')
  await writeFile(label, rows[0]?.labelfile ?? '')
  await promisify(execFile)('chown', [`--reference=${join(target, 'PG_VERSION')}`, label])
}

/** Ends what still runs, and takes the folders away. */
export async function cleanUp(): Promise<void> {
  for (const stack of running.splice(0)) await stack.stop()
  for (const home of homes) await rm(home, { recursive: true, force: true })
}
