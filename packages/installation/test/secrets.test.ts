import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  componentNames,
  filesOf,
  initSecrets,
  ringNames,
  rotatableNames,
  rotateRing,
  rotateSecret,
} from '@postern/installation'
import { parseKeyRing } from '@postern/signed-context'
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

async function ringOf(name: string) {
  return parseKeyRing(await readFile(join(folder, name), 'utf8'))
}

/** The keys in a file, in their order. */
async function readKeys(path: string): Promise<string[]> {
  return (await readFile(path, 'utf8')).split(/(?<=END PRIVATE KEY-----)/).flatMap((pem) => pem.trim() || [])
}

describe('the secrets of an installation', () => {
  test('are refused, not replaced, when a file was damaged', async () => {
    const damaged = await mkdtemp(join(tmpdir(), 'secrets-'))
    await writeFile(join(damaged, 'POSTERN_INTERNAL'), 'k1:short')
    await expect(initSecrets(damaged, addresses)).rejects.toThrow('POSTERN_INTERNAL does not hold what it should')
    expect(await readFile(join(damaged, 'POSTERN_INTERNAL'), 'utf8')).toBe('k1:short')
    await rm(damaged, { recursive: true, force: true })
  })

  test('are readable by their owner alone, and each component is given exactly its own', async () => {
    const folders = await initSecrets(folder, addresses)
    for (const component of componentNames) {
      expect((await stat(folders[component])).mode & 0o777).toBe(0o700)
      expect((await readdir(folders[component])).toSorted()).toEqual([...filesOf(component)].toSorted())
    }
    for (const path of Object.keys(await readAll())) expect((await stat(path)).mode & 0o777, path).toBe(0o600)
  })

  test('stay the same when they are made again', async () => {
    const before = await readAll()
    await initSecrets(folder, addresses)
    expect(await readAll()).toEqual(before)
  })

  test('name the pooler to services, and PostgreSQL itself to migrations', async () => {
    expect(await readFile(join(folder, 'keys', 'POSTERN_DATABASE_URL'), 'utf8')).toMatch(
      /^postgres:\/\/postern_keys:[\w-]{43}@pool:6432\/postern\n$/,
    )
    expect(await readFile(join(folder, 'migrate', 'POSTERN_MIGRATOR_URL'), 'utf8')).toMatch(
      /^postgres:\/\/postern_migrator:[\w-]{43}@pg:5432\/postern\n$/,
    )
  })
})

describe('the rotation of a ring', () => {
  test('refuses a step that is not the next one, and changes nothing', async () => {
    const before = await readAll()
    await expect(rotateRing(folder, 'POSTERN_INTERNAL', 'promote')).rejects.toThrow(
      'begin a rotation with the step add',
    )
    await expect(rotateRing(folder, 'POSTERN_INTERNAL', 'retire')).rejects.toThrow('begin a rotation with the step add')
    expect(await readAll()).toEqual(before)
    await rotateRing(folder, 'POSTERN_CACHE_MAC', 'add')
    await expect(rotateRing(folder, 'POSTERN_CACHE_MAC', 'add')).rejects.toThrow('a rotation is under way')
  })

  test.each(ringNames.filter((name) => name !== 'POSTERN_CACHE_MAC'))(
    'of %s: the new key is known before it signs, and the old one after it has stopped',
    async (name) => {
      const old = await ringOf(name)
      await rotateRing(folder, name, 'add')
      const added = await ringOf(name)
      expect(added.current).toEqual(old.current)
      await rotateRing(folder, name, 'promote')
      const promoted = await ringOf(name)
      expect(promoted).toEqual({ current: added.previous, previous: old.current })
      await rotateRing(folder, name, 'retire')
      expect(await ringOf(name)).toEqual({ current: added.previous })
    },
  )

  test.each([
    ['POSTERN_RECEIPT_KEY', 'evidence', 'evidence-receipt-key.pem'],
    ['POSTERN_CHECKPOINT_KEY', 'findings', 'findings-checkpoint-key.pem'],
  ])(
    'of %s: published before it signs, and the old ones for as long as they are left',
    async (name, component, file) => {
      await expect(rotateSecret(folder, name, 'promote')).rejects.toThrow('begin a rotation with the step add')
      await expect(rotateSecret(folder, name, 'replace')).rejects.toThrow('only a password is replaced')
      const [old] = await readKeys(join(folder, file))
      await rotateSecret(folder, name, 'add')
      const [signing, next, ...none] = await readKeys(join(folder, file))
      expect([signing, none]).toEqual([old, []])
      await rotateSecret(folder, name, 'promote')
      expect(await readKeys(join(folder, file))).toEqual([next, old])
      await rotateSecret(folder, name, 'add')
      await rotateSecret(folder, name, 'promote')
      const [third, ...before] = await readKeys(join(folder, file))
      expect(before).toEqual([next, old])
      await rotateSecret(folder, name, 'retire')
      await initSecrets(folder, addresses)
      expect(await readKeys(join(folder, component, name))).toEqual([third, next])
    },
  )

  test('of a password gives the new one to who checks it and to who shows it, and knows no other step', async () => {
    await expect(rotateSecret(folder, 'password-keys', 'add')).rejects.toThrow('the only step is replace')
    expect(rotatableNames).not.toContain('password-superuser')
    const old = (await readFile(join(folder, 'password-keys'), 'utf8')).trim()
    await rotateSecret(folder, 'password-keys', 'replace')
    await initSecrets(folder, addresses)
    const password = (await readFile(join(folder, 'password-keys'), 'utf8')).trim()
    expect(password).toMatch(/^[\w-]{43}$/)
    expect(password).not.toBe(old)
    const readers = ['migrate/POSTERN_PASSWORD_KEYS', 'keys/POSTERN_DATABASE_URL', 'pgbouncer/userlist.txt']
    for (const path of readers) expect(await readFile(join(folder, path), 'utf8'), path).toContain(password)
    expect(Object.values(await readAll()).join('\n')).not.toContain(old)
  })

  test('of what there is not is refused', async () => {
    await expect(rotateSecret(folder, 'POSTERN_SIGNING', 'add')).rejects.toThrow('there is no secret POSTERN_SIGNING')
  })

  test('reaches every component that reads the ring when the folders are made again', async () => {
    await initSecrets(folder, addresses)
    const ring = await readFile(join(folder, 'POSTERN_INTERNAL'), 'utf8')
    expect(await readFile(join(folder, 'gateway', 'POSTERN_INTERNAL'), 'utf8')).toBe(ring)
    expect(await readFile(join(folder, 'keys', 'POSTERN_INTERNAL'), 'utf8')).toBe(ring)
  })
})
