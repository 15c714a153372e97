import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { internalPaths } from '@postern/contracts/internal'
import { openSecrets, prepareDatabase, rolePasswords, roleUrl, rotateRing, rotationSteps } from '@postern/installation'
import { type Stack, startStack } from '@postern/local-stack'
import {
  createTestCaller,
  findFreePort,
  findPostgresClient,
  operator,
  startPostgres,
} from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

/** A running system in a folder, as `npm start` makes it. */
interface System {
  readonly home: string
  readonly stack: Stack
  readonly gateway: string
  readonly superuser: (database: string) => string
}

const homes: string[] = []
const running: Stack[] = []

async function start(home: string): Promise<System> {
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
    gateways: [{ port: await findFreePort(), adminPort: await findFreePort() }],
  }
  const stack = await startStack({ home, ports, durable: true, log: () => undefined })
  running.push(stack)
  const { superuser } = stack.secrets.passwords
  return {
    home,
    stack,
    gateway: stack.services.gateways[0] ?? '',
    superuser: (database) => `postgres://postgres:${superuser}@127.0.0.1:${ports.postgres}/${database}`,
  }
}

async function stop({ stack }: System): Promise<void> {
  running.splice(running.indexOf(stack), 1)
  await stack.stop()
}

async function newHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'postern-recovery-'))
  homes.push(home)
  // PostgreSQL runs as another user, who must be able to pass.
  await chmod(home, 0o711)
  return home
}

async function copy(from: string, into: string): Promise<void> {
  await promisify(execFile)('cp', ['--archive', from, into])
}

const idSchema = z.looseObject({ id: z.string() })
const keySchema = idSchema.extend({ key: z.string() })

function asOperator({ stack }: System) {
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

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

/** Roles, policies and rights, as text: what must be the same afterwards. */
const protections = `
  select 'role ' || rolname || ' ' || rolsuper || rolbypassrls || rolcanlogin || rolcreatedb as line from pg_roles where rolname like 'postern%'
  union all select 'database ' || datname || ' ' || coalesce(datacl::text, '') from pg_database where datname = current_database()
  union all select 'table ' || c.oid::regclass || ' ' || relrowsecurity || relforcerowsecurity || ' ' || coalesce(relacl::text, '')
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind in ('r', 'p') and nspname in ('tenancy', 'keys', 'universe', 'findings', 'evidence', 'sync')
  union all select 'policy ' || schemaname || '.' || tablename || '.' || policyname || ' ' || permissive || cmd || roles::text || coalesce(qual, '') || coalesce(with_check, '')
    from pg_policies
  order by 1`

const assertionRing = 'POSTERN_ASSERTION_KEYS'

/** What is done with the assertion keys after a backup: the key that it holds is replaced and retired. */
async function retireAssertionKey(home: string): Promise<void> {
  for (const step of rotationSteps) await rotateRing(join(home, 'secrets'), assertionRing, step)
}

/** The assertion keys that a database believes for good, as ids. */
async function believedKeys(url: string): Promise<unknown[]> {
  const rows = await query(url, 'select key_id from tenancy.assertion_secret where not_after is null order by 1')
  return rows.map((row) => row['key_id'])
}

/** Step 4 of the runbook, `postern migrate --retire-assertion-keys`, with the secrets of a folder. */
async function migrateAfterRestore(home: string, superuser: (database: string) => string): Promise<void> {
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

const bytes = Buffer.from('What the committee has seen.')
const sha256 = createHash('sha256').update(bytes).digest('hex')

let before: System
let own: { readonly id: string }
let other: { readonly id: string }
let ownKey: z.infer<typeof keySchema>
let otherKey: z.infer<typeof keySchema>
let lines: Record<string, unknown>[]

beforeAll(async () => {
  before = await start(await newHome())
  const call = asOperator(before)
  own = idSchema.parse(await call(internalPaths.tenants, { slug: 'own', name: 'Own' }))
  other = idSchema.parse(await call(internalPaths.tenants, { slug: 'other', name: 'Other' }))
  const input = { label: 'x', scopes: ['*'], expires_in: '30d' }
  ownKey = keySchema.parse(await call('/api/v1/api-keys', input, own.id))
  otherKey = keySchema.parse(await call('/api/v1/api-keys', input, other.id))
  for (const { key } of [ownKey, otherKey])
    await document(before, key, key === ownKey.key ? 'Own finding' : 'Other finding')
  const upload = await send(before.gateway, '/api/v1/evidence?file_name=a.txt', {
    key: ownKey.key,
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: bytes,
  })
  if (upload.status !== 201) throw new Error(upload.text)
  lines = await query(before.superuser('postern'), protections)
}, 240_000)

afterAll(async () => {
  for (const stack of running.splice(0)) await stack.stop()
  for (const home of homes) await rm(home, { recursive: true, force: true })
}, 120_000)

async function document({ gateway }: System, key: string, title: string): Promise<void> {
  const body = { title, condition: 'Seen.', severity: 'low' }
  const made = await send(gateway, '/api/v1/findings', { key, method: 'POST', body })
  expect(made.status, made.text).toBe(201)
}

async function titles({ gateway }: System, key: string): Promise<string[]> {
  const answer = await send(gateway, '/api/v1/findings?sort=created_at', { key })
  expect(answer.status, answer.text).toBe(200)
  return z
    .array(z.looseObject({ title: z.string() }))
    .parse(answer.json)
    .map(({ title }) => title)
}

/** What a restored system must be: data, keys, roles, policies and bytes as they were when the backup was taken. */
async function expectRestored(after: System, findings: readonly string[]): Promise<void> {
  expect(await titles(after, ownKey.key)).toEqual(findings)
  expect(await titles(after, otherKey.key)).toEqual(['Other finding'])
  expect(await query(after.superuser('postern'), protections)).toEqual(lines)
  const [row] = await query(after.superuser('postern'), 'select sha256 from evidence.file')
  expect(row).toEqual({ sha256 })
  const stored = await readdir(join(after.home, 'blobs'), { recursive: true, withFileTypes: true })
  const contents = await Promise.all(
    stored.filter((entry) => entry.isFile()).map(async (entry) => await readFile(join(entry.parentPath, entry.name))),
  )
  expect(contents.map((content) => createHash('sha256').update(content).digest('hex'))).toContain(sha256)
  // Without an assertion the service's own role still reads nothing.
  await expect(query(after.stack.databaseUrl('findings'), 'select count(*) from findings.finding')).rejects.toThrow(
    'refused',
  )
  await document(after, ownKey.key, 'After the restore')
}

describe('a base backup that is taken while the system runs', () => {
  test('brings back data, keys, roles, policies and bytes', async () => {
    const home = await newHome()
    const [source, target] = [join(before.home, 'postgres', 'data'), join(home, 'postgres', 'data')]
    // The steps of a base backup without pg_basebackup, in one session (PostgreSQL, "Low Level API").
    const session = new Client({ connectionString: before.superuser('postgres') })
    await session.connect()
    await session.query(`select pg_backup_start('drill', true)`)
    // With owners and rights. Files that PostgreSQL removes meanwhile are none of the backup.
    await copy(join(before.home, 'postgres'), home).catch(() => undefined)
    const { rows } = await session.query<{ labelfile: string }>('select labelfile from pg_backup_stop()')
    await session.end()
    await copy(join(source, 'pg_wal'), target)
    for (const name of ['postmaster.pid', 'postmaster.opts']) await rm(join(target, name), { force: true })
    const label = join(target, 'backup_label')
    await writeFile(label, rows[0]?.labelfile ?? '')
    await promisify(execFile)('chown', [`--reference=${join(target, 'PG_VERSION')}`, label])
    // The database first, the bytes second.
    await cp(join(before.home, 'blobs'), join(home, 'blobs'), { recursive: true })
    await cp(join(before.home, 'secrets'), join(home, 'secrets'), { recursive: true })
    // What comes after the backup is not in it. The key is retired where the system goes on, and so in the folder of today.
    await retireAssertionKey(home)
    await document(before, ownKey.key, 'Too late')

    const after = await start(home)
    const { superuser } = after
    expect(await believedKeys(superuser('postern'))).toHaveLength(2)
    await migrateAfterRestore(home, superuser)
    await expectRestored(after, ['Own finding'])
    await stop(after)
  }, 240_000)
})

const client = await findPostgresClient()
if (typeof client === 'string') process.stdout.write(`SKIPPED pg_dump and pg_restore: ${client}\n`)

describe.skipIf(typeof client === 'string')('a dump', () => {
  test('brings back the same, in the order of the runbook', async () => {
    if (typeof client === 'string') return
    const file = join(await newHome(), 'postern.dump')
    const then = await titles(before, ownKey.key)
    await client.run('pg_dump', ['--format=custom', `--file=${file}`, before.superuser('postern')])
    const home = await newHome()
    await cp(join(before.home, 'blobs'), join(home, 'blobs'), { recursive: true })
    await cp(join(before.home, 'secrets'), join(home, 'secrets'), { recursive: true })
    await document(before, ownKey.key, 'Later than the dump')
    await retireAssertionKey(home)

    const secrets = await openSecrets(join(home, 'secrets'))
    const port = await findFreePort()
    const { superuser: password } = secrets.passwords
    const postgres = await startPostgres({ home, port, password, durable: false })
    try {
      const passwords = rolePasswords(secrets)
      const superuser = { url: postgres.superuserUrl, passwords }
      // What `postern migrate` does.
      await prepareDatabase({
        database: 'postern',
        superuser,
        migratorUrl: roleUrl('migrator', passwords.migrator, `127.0.0.1:${port}`, 'postern'),
        assertionKeys: secrets.rings[assertionRing],
      })
      await query(superuser.url('postgres'), 'drop database postern with (force)')
      await query(superuser.url('postgres'), 'create database postern owner postern_owner')
      await client.run('pg_restore', ['--exit-on-error', `--dbname=${superuser.url('postern')}`, file])
      // Who may connect is not in a dump: until the second migrate anybody may.
      expect(await query(superuser.url('postern'), protections)).not.toEqual(lines)
      const [old] = await believedKeys(superuser.url('postern'))
      expect(secrets.rings[assertionRing]).not.toContain(`${String(old)}:`)
      await migrateAfterRestore(home, superuser.url)
      expect(await query(superuser.url('postern'), protections)).toEqual(lines)
    } finally {
      await postgres.stop()
    }
    const after = await start(home)
    await expectRestored(after, then)
    await stop(after)
  }, 240_000)
})
