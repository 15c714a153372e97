import { hash } from 'node:crypto'
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  componentNames,
  filesOf,
  initSecrets,
  randomPassword,
  rotateSecret,
  rotationSteps,
} from '@postern/installation'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const addresses = { pooler: 'pool:6432', postgres: 'pg:5432', redis: 'cache:6379', database: 'postern' }
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'secrets-'))
})
afterAll(async () => await rm(folder, { recursive: true, force: true }))

async function readAll(): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) found[path] = await readFile(path, 'utf8')
  }
  return found
}

describe('the secrets of an installation', () => {
  test('keep the keys of rings that had another name in an earlier release', async () => {
    const home = await mkdtemp(join(tmpdir(), 'secrets-'))
    const rings = { POSTERN_INTERNAL: 'k1:' + 'A'.repeat(43), POSTERN_CACHE_MAC: 'k2:' + 'B'.repeat(42) + 'A' }
    for (const [name, ring] of Object.entries(rings)) await writeFile(join(home, name), `${ring}\n`)
    await initSecrets(home, addresses)
    const read = async (name: string): Promise<string> => (await readFile(join(home, name), 'utf8')).trim()
    expect(await read('POSTERN_INTERNAL_SIGNING_KEYS')).toBe(rings.POSTERN_INTERNAL)
    expect(await read('gateway/POSTERN_CACHE_SIGNING_KEYS')).toBe(rings.POSTERN_CACHE_MAC)
    expect(await read('POSTERN_INTERNAL')).toBe(rings.POSTERN_INTERNAL)
    await rm(home, { recursive: true })
  })

  test('are rejected, not replaced, if a file is damaged', async () => {
    const damaged = await mkdtemp(join(tmpdir(), 'secrets-'))
    await writeFile(join(damaged, 'POSTERN_INTERNAL_SIGNING_KEYS'), 'k1:short')
    await expect(initSecrets(damaged, addresses)).rejects.toThrow('POSTERN_INTERNAL_SIGNING_KEYS is damaged')
    expect(await readFile(join(damaged, 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')).toBe('k1:short')
    await rm(damaged, { recursive: true, force: true })
  })

  test('are readable only by their owner, and each component receives exactly its own', async () => {
    const folders = await initSecrets(folder, addresses)
    for (const component of componentNames) {
      expect((await stat(folders[component])).mode & 0o777).toBe(0o700)
      expect((await readdir(folders[component])).toSorted()).toEqual([...filesOf(component)].toSorted())
    }
    for (const path of Object.keys(await readAll())) expect((await stat(path)).mode & 0o777, path).toBe(0o600)
  })

  test('stay the same after a second run', async () => {
    const before = await readAll()
    await initSecrets(folder, addresses)
    expect(await readAll()).toEqual(before)
  })

  test('contain the pooler for services and PostgreSQL for migrations', async () => {
    expect(await readFile(join(folder, 'keys', 'POSTERN_DATABASE_URL'), 'utf8')).toMatch(
      /^postgres:\/\/postern_keys:[\w-]{43}@pool:6432\/postern\n$/,
    )
    expect(await readFile(join(folder, 'migrate', 'POSTERN_MIGRATOR_URL'), 'utf8')).toMatch(
      /^postgres:\/\/postern_migrator:[\w-]{43}@pg:5432\/postern\n$/,
    )
  })
})

describe('the addresses of an installation', () => {
  const at = {
    superuser: 'migrate/POSTERN_SUPERUSER_URL',
    migrator: 'migrate/POSTERN_MIGRATOR_URL',
    keys: 'keys/POSTERN_DATABASE_URL',
    sync: 'sync/POSTERN_DATABASE_URL',
    redis: 'gateway/POSTERN_REDIS_URL',
  }
  let own: string
  beforeAll(async () => {
    own = await mkdtemp(join(tmpdir(), 'secrets-'))
  })
  afterAll(async () => await rm(own, { recursive: true, force: true }))

  async function read(path: string): Promise<string> {
    return (await readFile(join(own, path), 'utf8')).trim().replace(/:[\w-]{43}@/, ':SECRET@')
  }

  /** The URLs of a folder, each with a word in the place of its password. */
  async function urls(): Promise<Record<keyof typeof at, string>> {
    const [superuser, migrator, keys, sync, redis] = await Promise.all([
      read(at.superuser),
      read(at.migrator),
      read(at.keys),
      read(at.sync),
      read(at.redis),
    ])
    return { superuser, migrator, keys, sync, redis }
  }

  test('default to those of the compose file', async () => {
    await initSecrets(own)
    expect(await urls()).toEqual({
      superuser: 'postgres://postgres:SECRET@postgres:5432/postgres',
      migrator: 'postgres://postern_migrator:SECRET@postgres:5432/postern',
      keys: 'postgres://postern_keys:SECRET@pgbouncer:6432/postern',
      sync: 'postgres://postern_sync:SECRET@pgbouncer:6432/postern',
      redis: 'redis://postern-gateway:SECRET@redis:6379',
    })
  })

  test('are the given ones, also after a rotation', async () => {
    await initSecrets(own, {
      postgres: 'db.internal:5432?sslmode=verify-full',
      pooler: 'pool.internal:6432',
      redis: 'rediss+sentinel://a:26379,b:26379/main',
      database: 'audit',
    })
    const given = {
      superuser: 'postgres://postgres:SECRET@db.internal:5432/postgres?sslmode=verify-full',
      migrator: 'postgres://postern_migrator:SECRET@db.internal:5432/audit?sslmode=verify-full',
      keys: 'postgres://postern_keys:SECRET@pool.internal:6432/audit',
      sync: 'postgres://postern_sync:SECRET@pool.internal:6432/audit',
      redis: 'rediss+sentinel://postern-gateway:SECRET@a:26379,b:26379/main',
    }
    expect(await urls()).toEqual(given)
    const old = await readFile(join(own, at.keys), 'utf8')
    for (const step of rotationSteps) {
      await rotateSecret(own, 'password-keys', step)
      await rotateSecret(own, 'password-redis-gateway', step)
      await initSecrets(own)
    }
    // The other login of the role, and nothing else.
    expect(await urls()).toEqual({ ...given, keys: given.keys.replace('postern_keys:', 'postern_keys_b:') })
    const password = (await readFile(join(own, 'password-keys'), 'utf8')).trim().replace(/^b:/, '')
    expect(await readFile(join(own, at.keys), 'utf8')).toContain(`:${password}@`)
    expect(old).not.toContain(password)
  })

  test('stay unchanged if they were edited', async () => {
    const hand = {
      superuser: 'postgres://admin:x@db:5432/postgres?sslmode=verify-full',
      migrator: 'postgres://postern_migrator:x@db:5432/audit?sslmode=verify-full&application_name=a%20b',
      sync: 'postgres://postern_sync:x@pool-of-sync:6432/sync',
      redis: 'redis+sentinel://audit:x@a:26379/main?sentinel_password=y',
    } as const
    for (const name of ['superuser', 'migrator', 'sync', 'redis'] as const)
      await writeFile(join(own, at[name]), hand[name])
    await initSecrets(own)
    const expected = Object.entries(hand).map(([name, url]) => [name, url.replace(':x@', ':SECRET@')])
    expect(await urls()).toEqual({ ...(await urls()), ...Object.fromEntries(expected) })
    // Another server is not another protection: parameters, TLS and who logs in stay.
    await initSecrets(own, { postgres: 'other:5432' })
    expect((await urls()).superuser).toBe('postgres://admin:SECRET@other:5432/postgres?sslmode=verify-full')
    await initSecrets(own, { postgres: 'other:5432?', redis: 'rediss://c:6379' })
    await initSecrets(own, { redis: 'd:6379' })
    expect(await urls()).toMatchObject({
      superuser: 'postgres://admin:SECRET@other:5432/postgres',
      redis: 'rediss://postern-gateway:SECRET@d:6379',
    })
  })

  test('may name several servers of PostgreSQL', async () => {
    const several = await mkdtemp(join(tmpdir(), 'secrets-'))
    const servers = 'a.internal:5432,[fd00::1]:5433?target_session_attrs=read-write&sslmode=verify-full'
    await initSecrets(several, { postgres: servers, pooler: servers })
    await initSecrets(several)
    const hosts = 'a.internal:5432,[fd00::1]:5433'
    const query = 'target_session_attrs=read-write&sslmode=verify-full'
    for (const [file, user, name] of [
      [at.keys, 'postern_keys', 'postern'],
      [at.sync, 'postern_sync', 'postern'],
      [at.migrator, 'postern_migrator', 'postern'],
      [at.superuser, 'postgres', 'postgres'],
    ] as const) {
      const text = (await readFile(join(several, file), 'utf8')).trim()
      expect(text.replace(/:[\w-]{43}@/, ':SECRET@')).toBe(`postgres://${user}:SECRET@${hosts}/${name}?${query}`)
    }
    await rm(several, { recursive: true, force: true })
  })

  test('of a missing file are those of the other files', async () => {
    for (const name of ['superuser', 'keys', 'redis'] as const) await rm(join(own, at[name]))
    await initSecrets(own)
    expect(await urls()).toMatchObject({
      superuser: 'postgres://postgres:SECRET@other:5432/postgres',
      keys: 'postgres://postern_keys_b:SECRET@pool.internal:6432/audit',
      redis: 'rediss://postern-gateway:SECRET@d:6379',
    })
  })

  test.each([
    [{ postgres: 'db.internal' }, 'postgres must be host:port'],
    [{ pooler: 'postgres://db:5432' }, 'pooler must be host:port'],
    [{ postgres: 'db:5432/other?a b' }, 'postgres must be host:port'],
    [{ postgres: 'a:5432,b' }, 'postgres must be host:port'],
    [{ pooler: 'a:5432,,b:5432' }, 'pooler must be host:port'],
    [{ postgres: 'a:5432,b:70000' }, 'postgres must name each host'],
    [{ pooler: 'a:5432,b:5432?target_session_attrs=standby' }, 'because Postern writes to the database'],
    [{ redis: 'rediss://:secret@cache:6379' }, 'without a password'],
    [{ redis: 'http://cache:6379' }, 'without a password'],
  ])('%j is rejected and changes nothing', async (wrong, message) => {
    const before = await urls()
    await expect(initSecrets(own, wrong)).rejects.toThrow(message)
    expect(await urls()).toEqual(before)
  })

  test('keep the shared Redis login of an older installation while its password exists', async () => {
    const home = await mkdtemp(join(tmpdir(), 'secrets-'))
    const password = randomPassword()
    await writeFile(join(home, 'password-redis'), `${password}\n`)
    const shown = async (name: string) => (await readFile(join(home, name, 'POSTERN_REDIS_URL'), 'utf8')).trim()
    const users = async () => await readFile(join(home, 'redis', 'users.acl'), 'utf8')
    await initSecrets(home, { redis: 'rediss+sentinel://a:26379/main' })
    const shared = `rediss+sentinel://:${password}@a:26379/main`
    expect(await Promise.all(['keys', 'gateway', 'console'].map(shown))).toEqual([shared, shared, shared])
    // The old login and the new logins are both accepted.
    expect(await users()).toMatch(
      new RegExp(`^user default reset on #${hash('sha256', password)} .*\nuser postern-keys reset on `),
    )
    for (const step of rotationSteps) await rotateSecret(home, 'password-redis', step)
    await initSecrets(home)
    expect(await shown('keys')).not.toBe(shared)
    await rm(join(home, 'password-redis'))
    await initSecrets(home)
    for (const name of ['keys', 'gateway', 'console']) {
      const its = (await readFile(join(home, `password-redis-${name}`), 'utf8')).trim()
      expect(await shown(name)).toBe(`rediss+sentinel://postern-${name}:${its}@a:26379/main`)
    }
    expect(await users()).toMatch(/^user default reset off\n/)
    await expect(rotateSecret(home, 'password-redis', 'add')).rejects.toThrow('Rotate password-redis-keys')
    await rm(home, { recursive: true })
  })

  test('that are invalid are not replaced', async () => {
    await writeFile(join(own, at.redis), 'no address')
    await expect(initSecrets(own)).rejects.toThrow('contains no URL with a password')
    expect(await readFile(join(own, at.redis), 'utf8')).toBe('no address')
  })
})
