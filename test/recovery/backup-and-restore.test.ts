/**
 * @promise Operation: A backup restores keys, revocations, findings and evidence.
 * @alsoShownBy npm run test:recovery
 */

import { createHash } from 'node:crypto'
import { cp, readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { internalPaths } from '@postern/contracts/internal'
import { openSecrets, prepareDatabase, rolePasswords, roleUrl } from '@postern/installation'
import { findFreePort, findPostgresClient, startPostgres } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'
import {
  type System,
  asOperator,
  assertionRing,
  believedKeys,
  cleanUp,
  idSchema,
  keySchema,
  migrateAfterRestore,
  newHome,
  query,
  retireAssertionKey,
  revokedSince,
  start,
  stop,
  takeBaseBackup,
} from './system.ts'

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

const bytes = Buffer.from('What the committee has seen.')
const sha256 = createHash('sha256').update(bytes).digest('hex')

const input = { label: 'x', scopes: ['*'], expires_in: '30d' }

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

afterAll(cleanUp, 120_000)

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

/** A restored system has the data, keys, roles, policies and bytes of the backup. */
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
    await takeBaseBackup(before, home)
    // The database first, the bytes second.
    await cp(join(before.home, 'blobs'), join(home, 'blobs'), { recursive: true })
    await cp(join(before.home, 'secrets'), join(home, 'secrets'), { recursive: true })
    // Changes after the backup are lost. The key is retired in the running system and in its folder.
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
    const leaked = keySchema.parse(await asOperator(before)('/api/v1/api-keys', input, own.id))
    const backedUpAt = new Date()
    await client.run('pg_dump', ['--format=custom', `--file=${file}`, before.superuser('postern')])
    const home = await newHome()
    await cp(join(before.home, 'blobs'), join(home, 'blobs'), { recursive: true })
    await cp(join(before.home, 'secrets'), join(home, 'secrets'), { recursive: true })
    await document(before, ownKey.key, 'Later than the dump')
    await asOperator(before)(`/api/v1/api-keys/${leaked.id}/revoke`, { reason: 'leaked' }, own.id)
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
      // A dump does not contain rights on the database, so everyone can connect until the second migrate.
      expect(await query(superuser.url('postern'), protections)).not.toEqual(lines)
      const [old] = await believedKeys(superuser.url('postern'))
      expect(secrets.rings[assertionRing]).not.toContain(`${String(old)}:`)
      await migrateAfterRestore(home, superuser.url)
      expect(await query(superuser.url('postern'), protections)).toEqual(lines)
    } finally {
      await postgres.stop()
    }
    // No gateway starts before the later revocations are repeated, because the backup has the key as valid.
    const closed = await start(home, {}, { isOpen: false })
    const revoked = await revokedSince(before, backedUpAt)
    expect(revoked).toEqual([{ id: leaked.id, tenantId: own.id }])
    for (const { id, tenantId } of revoked)
      await asOperator(closed)(`/api/v1/api-keys/${id}/revoke`, { reason: 'repeated after a restore' }, tenantId)
    await stop(closed)
    const after = await start(home)
    const refused = await send(after.gateway, '/api/v1/findings', { key: leaked.key })
    expect([refused.status, refused.json]).toEqual([401, expect.objectContaining({ code: 'key_revoked' })])
    await expectRestored(after, then)
    await stop(after)
  }, 240_000)
})
