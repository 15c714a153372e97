/**
 * @promise Keys and secrets: Every secret can be rotated without rejecting a request.
 * @alsoShownBy packages/signed-context/src/key-ring.test.ts, packages/tenant-db/test/roles.test.ts, npm run test:containers
 */

import { hash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type RotationStep,
  initSecrets,
  ringNames,
  rotatableNames,
  rotateRing,
  rotateSecret,
  rotationSteps,
} from '@postern/installation'
import { parseKeyRing } from '@postern/signed-context'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const addresses = { pooler: 'pool:6432', postgres: 'pg:5432', redis: 'cache:6379', database: 'postern' }
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'secrets-'))
  await initSecrets(folder, addresses)
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

async function readSecret(path: string): Promise<string> {
  return (await readFile(join(folder, path), 'utf8')).trim()
}

async function ringOf(name: string) {
  return parseKeyRing(await readFile(join(folder, name), 'utf8'))
}

/** The keys in a file, in their order. */
async function readKeys(path: string): Promise<string[]> {
  return (await readFile(path, 'utf8')).split(/(?<=END PRIVATE KEY-----)/).flatMap((pem) => pem.trim() || [])
}

describe('the rotation of a ring', () => {
  test('rejects a step out of order and changes nothing', async () => {
    const before = await readAll()
    await expect(rotateRing(folder, 'POSTERN_INTERNAL_SIGNING_KEYS', 'promote')).rejects.toThrow(
      'the first step of a rotation is add',
    )
    await expect(rotateRing(folder, 'POSTERN_INTERNAL_SIGNING_KEYS', 'retire')).rejects.toThrow(
      'the first step of a rotation is add',
    )
    expect(await readAll()).toEqual(before)
    await rotateRing(folder, 'POSTERN_CACHE_SIGNING_KEYS', 'add')
    await expect(rotateRing(folder, 'POSTERN_CACHE_SIGNING_KEYS', 'add')).rejects.toThrow('a rotation is in progress')
  })

  test.each([
    ['POSTERN_ASSERTION_KEYS', 'POSTERN_ASSERTION_KEYS'],
    ['password-universe', 'password-universe'],
    ['POSTERN_RECEIPT_KEY', 'evidence-receipt-key.pem'],
  ])('of %s rejects repeated and skipped steps, so that a leaked key is never reactivated', async (name, file) => {
    const home = await mkdtemp(join(tmpdir(), 'rotation-'))
    await initSecrets(home, addresses)
    const held = async () => (await readFile(join(home, file), 'utf8')).trim()
    const refused = async (step: RotationStep, words: string) => {
      const before = await held()
      await expect(rotateSecret(home, name, step)).rejects.toThrow(words)
      expect(await held()).toBe(before)
    }
    const leaked = await held()
    await rotateSecret(home, name, 'add')
    await refused('add', 'a rotation is in progress')
    await refused('retire', 'the next step is promote')
    await rotateSecret(home, name, 'promote')
    await refused('promote', 'the next step is retire')
    await rotateSecret(home, name, 'retire')
    await refused('retire', 'the first step of a rotation is add')
    await refused('promote', 'the first step of a rotation is add')
    expect(await held()).not.toContain(leaked)
    // The next one goes the same way.
    const second = await held()
    for (const step of rotationSteps) await rotateSecret(home, name, step)
    expect(await held()).not.toContain(second)
    await rm(home, { recursive: true })
  })

  test('that an older release started continues', async () => {
    const home = await mkdtemp(join(tmpdir(), 'rotation-'))
    await initSecrets(home, addresses)
    await rotateSecret(home, 'POSTERN_INTERNAL_SIGNING_KEYS', 'add')
    const [old, added] = (await readFile(join(home, 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')).trim().split(',')
    await rm(join(home, 'POSTERN_INTERNAL_SIGNING_KEYS.rotation'))
    await rotateSecret(home, 'POSTERN_INTERNAL_SIGNING_KEYS', 'promote')
    expect((await readFile(join(home, 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')).trim()).toBe(`${added},${old}`)
    await expect(rotateSecret(home, 'POSTERN_INTERNAL_SIGNING_KEYS', 'promote')).rejects.toThrow(
      'the next step is retire',
    )
    await rm(home, { recursive: true })
  })

  test('of published keys that an older release started begins with add, so that the old key never signs again', async () => {
    const home = await mkdtemp(join(tmpdir(), 'rotation-'))
    await initSecrets(home, addresses)
    const name = 'POSTERN_RECEIPT_KEY'
    for (const step of ['add', 'promote'] as const) await rotateSecret(home, name, step)
    const file = join(home, 'evidence-receipt-key.pem')
    await rm(`${file}.rotation`)
    const before = await readFile(file, 'utf8')
    await expect(rotateSecret(home, name, 'promote')).rejects.toThrow('the first step of a rotation is add')
    expect(await readFile(file, 'utf8')).toBe(before)
    const [signing] = await readKeys(file)
    await rotateSecret(home, name, 'add')
    await rotateSecret(home, name, 'promote')
    expect((await readKeys(file))[1]).toBe(signing)
    await rm(home, { recursive: true })
  })

  test.each(ringNames.filter((name) => name !== 'POSTERN_CACHE_SIGNING_KEYS'))(
    'of %s accepts the new key before it signs and the old one after it has stopped',
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
    'of %s publishes the new key before it signs, and old keys until they are retired',
    async (name, component, file) => {
      await expect(rotateSecret(folder, name, 'promote')).rejects.toThrow('the first step of a rotation is add')
      await expect(rotateSecret(folder, name, 'replace')).rejects.toThrow('is replaced in three steps')
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

  test.each([
    ['password-keys', /^postgres:\/\/postern_keys(_b)?:([\w-]{43})@/, 'POSTERN_DATABASE_URL', 'userlist.txt'],
    ['password-redis-keys', /^redis:\/\/postern-keys(_)?:([\w-]{43})@/, 'POSTERN_REDIS_URL', 'users.acl'],
  ])(
    'of %s accepts the new password with a second login before it is used, and the old one after that',
    async (name, form, url, checker) => {
      const shown = async () => form.exec(await readFile(join(folder, 'keys', url), 'utf8'))?.slice(1) ?? []
      const takeStep = async (step: 'add' | 'promote' | 'retire') => {
        await rotateSecret(folder, name, step)
        await initSecrets(folder, addresses)
        const accepted = await readFile(join(folder, name === 'password-keys' ? 'pgbouncer' : 'redis', checker), 'utf8')
        return { shown: await shown(), accepts: (password: string) => accepted.includes(formOf(password)) }
      }
      // Redis is given hashes.
      const formOf = (password: string) => (name === 'password-keys' ? password : `#${hash('sha256', password)}`)
      await expect(rotateSecret(folder, name, 'replace')).rejects.toThrow('is replaced in three steps')
      await expect(rotateSecret(folder, name, 'promote')).rejects.toThrow('the first step of a rotation is add')
      const [oldLogin, old = ''] = await shown()
      const added = await takeStep('add')
      expect(added.shown).toEqual([oldLogin, old])
      await expect(rotateSecret(folder, name, 'add')).rejects.toThrow('a rotation is in progress')
      const promoted = await takeStep('promote')
      const [nextLogin, next = ''] = promoted.shown
      expect(next).not.toBe(old)
      // At PostgreSQL a login has one password, so that the new one is of the other login.
      if (name === 'password-keys') expect([oldLogin, nextLogin]).toEqual([undefined, '_b'])
      for (const { accepts } of [added, promoted]) expect([accepts(old), accepts(next)]).toEqual([true, true])
      const retired = await takeStep('retire')
      expect(retired.shown).toEqual([nextLogin, next])
      expect([retired.accepts(old), retired.accepts(next)]).toEqual([false, true])
      expect(Object.values(await readAll()).join('\n')).not.toContain(old)
    },
  )

  test('of password-store accepts the new access key before it is used, and the old one after that', async () => {
    const takeStep = async (step: 'add' | 'promote' | 'retire') => {
      await rotateSecret(folder, 'password-store', step)
      await initSecrets(folder, addresses)
      const id = await readSecret('evidence/POSTERN_STORE_ACCESS_KEY_ID')
      const key = `${id} ${await readSecret('evidence/POSTERN_STORE_SECRET_ACCESS_KEY')}`
      return { key, users: (await readSecret('store/store-users')).split('\n') }
    }
    const old = await readSecret('store/store-users')
    expect(old).toMatch(/^postern:evidence [\w-]{43}$/)
    const added = await takeStep('add')
    expect(added.key).toBe(old)
    expect(added.users).toEqual([old, expect.stringMatching(/^postern:evidence-b [\w-]{43}$/)])
    const promoted = await takeStep('promote')
    expect(promoted).toEqual({ key: added.users[1], users: added.users.toReversed() })
    expect((await takeStep('retire')).users).toEqual([promoted.key])
  })

  test('of a password for the second time uses the first login again', async () => {
    for (const step of ['add', 'promote', 'retire'] as const) await rotateSecret(folder, 'password-keys', step)
    expect(await readFile(join(folder, 'password-keys'), 'utf8')).toMatch(/^a:[\w-]{43}\n$/)
    await initSecrets(folder, addresses)
    expect(await readFile(join(folder, 'keys', 'POSTERN_DATABASE_URL'), 'utf8')).toContain('//postern_keys:')
  })

  test("of the migrator's password is one step", async () => {
    await expect(rotateSecret(folder, 'password-migrator', 'add')).rejects.toThrow('has only the step replace')
    expect(rotatableNames).not.toContain('password-superuser')
    const old = (await readFile(join(folder, 'password-migrator'), 'utf8')).trim()
    await rotateSecret(folder, 'password-migrator', 'replace')
    await initSecrets(folder, addresses)
    const password = (await readFile(join(folder, 'password-migrator'), 'utf8')).trim()
    expect(password).toMatch(/^[\w-]{43}$/)
    expect(await readFile(join(folder, 'migrate/POSTERN_MIGRATOR_URL'), 'utf8')).toContain(password)
    expect(Object.values(await readAll()).join('\n')).not.toContain(old)
  })

  test('of an unknown secret is rejected', async () => {
    await expect(rotateSecret(folder, 'POSTERN_SIGNING', 'add')).rejects.toThrow('the secret POSTERN_SIGNING')
  })

  test.each([
    ['POSTERN_INTERNAL_SIGNING_KEYS', 'add'],
    ['POSTERN_RECEIPT_KEY', 'add'],
    ['password-keys', 'add'],
    ['password-migrator', 'replace'],
  ] as const)('of %s in a folder without secrets is rejected and creates none', async (name, step) => {
    const empty = join(folder, 'not-the-folder')
    await mkdir(empty, { recursive: true })
    for (const elsewhere of [empty, join(empty, 'nowhere')]) {
      await expect(rotateSecret(elsewhere, name, step)).rejects.toThrow('does not exist. Pass the secrets folder')
    }
    expect(await readdir(empty)).toEqual([])
  })

  test('reaches every component that reads the ring after the next run', async () => {
    await initSecrets(folder, addresses)
    const ring = await readFile(join(folder, 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')
    expect(await readFile(join(folder, 'gateway', 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')).toBe(ring)
    expect(await readFile(join(folder, 'keys', 'POSTERN_INTERNAL_SIGNING_KEYS'), 'utf8')).toBe(ring)
  })
})
