import { createPrivateKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import { parseLoginPasswords } from '@postern/tenant-db'

export const ringNames = [
  'POSTERN_SIGNING_KEYS',
  'POSTERN_SIGNING_FINDINGS',
  'POSTERN_SIGNING_UNIVERSE',
  'POSTERN_SIGNING_EVIDENCE',
  'POSTERN_SIGNING_SYNC',
  'POSTERN_SIGNING_OPERATOR',
  'POSTERN_SIGNING_SYNC_UNIVERSE',
  'POSTERN_SIGNING_EVIDENCE_UNIVERSE',
  'POSTERN_SIGNING_FINDINGS_UNIVERSE',
  'POSTERN_SIGNING_FINDINGS_EVIDENCE',
  'POSTERN_SIGNING_UNIVERSE_FINDINGS',
  'POSTERN_ASSERTION_KEYS',
  'POSTERN_INTERNAL_SIGNING_KEYS',
  'POSTERN_CACHE_SIGNING_KEYS',
  'POSTERN_CONSOLE_SESSION',
  'POSTERN_SYNC_SECRETS',
] as const
export type RingName = (typeof ringNames)[number]

/** A ring is created with the keys of its former file, which stays. */
export const formerRingNames: Readonly<Partial<Record<RingName, string>>> = {
  POSTERN_INTERNAL_SIGNING_KEYS: 'POSTERN_INTERNAL',
  POSTERN_CACHE_SIGNING_KEYS: 'POSTERN_CACHE_MAC',
}

/** `superuser` only creates roles; `migrator` migrates. */
export const passwordNames = [
  'superuser',
  'migrator',
  'keys',
  'findings',
  'universe',
  'evidence',
  'sync',
  'redis-keys',
  'redis-gateway',
  'redis-console',
  'redis-admin',
  'store',
] as const
export type PasswordName = (typeof passwordNames)[number]

/** In older installations, all components use `default` with this password. */
export const sharedRedisPasswordFile = 'password-redis'

/** PKCS #8 PEM, by variable. */
export const signingKeyFiles = {
  POSTERN_RECEIPT_KEY: 'evidence-receipt-key.pem',
  POSTERN_CHECKPOINT_KEY: 'findings-checkpoint-key.pem',
} as const

export interface Secrets {
  readonly folder: string
  readonly rings: Readonly<Record<RingName, string>>
  readonly passwords: Readonly<Record<PasswordName, string>>
  /** Undefined if each component has its own Redis login. */
  readonly sharedRedisPasswords: string | undefined
  /** The first key signs receipts; the others are only published. */
  readonly receiptKeyFile: string
  readonly checkpointKeyFile: string
  /** An administrator puts the console's OpenID client secret there. */
  readonly oidcClientSecretFile: string
  ringFile(name: RingName): string
  /** Derived at each start, such as a connection string. */
  put(name: string, value: string): Promise<string>
}

export const signingRings = {
  keys: 'POSTERN_SIGNING_KEYS',
  findings: 'POSTERN_SIGNING_FINDINGS',
  universe: 'POSTERN_SIGNING_UNIVERSE',
  evidence: 'POSTERN_SIGNING_EVIDENCE',
  sync: 'POSTERN_SIGNING_SYNC',
} as const satisfies Record<Upstream, RingName>

/** Returns `id:base64url`: the id contains the time of creation, the secret 32 random bytes. */
export function randomRing(id = `k${Math.floor(Date.now() / 1000).toString(36)}`): string {
  return `${id}:${randomBytes(32).toString('base64url')}`
}

/** Returns 256 random bits that need no escaping. */
export function randomPassword(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * Only the owner can read the folder (0700) and its files (0600). `given` rings are stored unless the folder has one.
 */
export async function openSecrets(folder: string, given: Partial<Record<RingName, string>> = {}): Promise<Secrets> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const rings = new Map<RingName, string>()
  for (const name of ringNames) {
    const formerName = formerRingNames[name]
    const former = formerName === undefined ? undefined : await readIfThere(join(folder, formerName))
    rings.set(name, await readOrMake(join(folder, name), () => given[name] ?? former ?? randomRing(), isRing))
  }
  const passwords = new Map<PasswordName, string>()
  for (const name of passwordNames) {
    passwords.set(name, await readOrMake(join(folder, `password-${name}`), randomPassword, isPassword))
  }
  const shared = join(folder, sharedRedisPasswordFile)
  const sharedRedisPasswords = await readIfThere(shared)
  if (sharedRedisPasswords !== undefined && !isPassword(sharedRedisPasswords)) throw damagedFileError(shared)
  const receiptKeyFile = join(folder, signingKeyFiles.POSTERN_RECEIPT_KEY)
  await readOrMake(receiptKeyFile, makeSigningKey, isEd25519)
  const checkpointKeyFile = join(folder, signingKeyFiles.POSTERN_CHECKPOINT_KEY)
  await readOrMake(checkpointKeyFile, makeSigningKey, isEd25519)
  const oidcClientSecretFile = join(folder, 'oidc-client-secret')
  await readOrMake(oidcClientSecretFile, randomPassword, isClientSecret)
  return {
    folder,
    rings: complete(ringNames, rings),
    passwords: complete(passwordNames, passwords),
    sharedRedisPasswords,
    receiptKeyFile,
    checkpointKeyFile,
    oidcClientSecretFile,
    ringFile: (name) => join(folder, name),
    put: async (name, value) => {
      const path = join(folder, name)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      // A concurrent reader such as PgBouncer never finds a missing file.
      await replaceFile(path, value)
      return path
    },
  }
}

/** Returns the values as a record; a missing one is empty. */
export function complete<Name extends string>(
  names: readonly Name[],
  values: ReadonlyMap<Name, string>,
): Record<Name, string> {
  const entries = names.map((name) => [name, values.get(name) ?? ''])
  return Object.fromEntries(entries)
}

export function isRing(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]{43}(,[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]{43})*$/.test(text)
}

function isPassword(text: string): boolean {
  return parseLoginPasswords(text).every(({ password }) => /^[A-Za-z0-9_-]{43}$/.test(password))
}

/** Printable and on one line, as providers issue it. */
function isClientSecret(text: string): boolean {
  return /^[\x21-\x7e]{16,512}$/.test(text)
}

export function makeSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
}

function isEd25519(text: string): boolean {
  try {
    return createPrivateKey(text).asymmetricKeyType === 'ed25519'
  } catch {
    return false
  }
}

async function readOrMake(path: string, make: () => string, isValid: (text: string) => boolean): Promise<string> {
  const found = await readIfThere(path)
  if (found === undefined) {
    await writeOnce(path, make())
    return await readOrMake(path, make, isValid)
  }
  // A damaged secret is never replaced: data encrypted or signed with it would be lost.
  if (!isValid(found)) throw damagedFileError(path)
  return found
}

function damagedFileError(path: string): Error {
  return new Error(`${path} is damaged. Restore it, or remove it to create a new one`)
}

/** Undefined if the file does not exist. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

export async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await rm(unfinished, { force: true })
  await writeFile(unfinished, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true })
  await rename(unfinished, path)
}

async function writeOnce(path: string, value: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await rm(unfinished, { force: true })
  {
    await using file = await open(unfinished, 'wx', 0o600)
    await file.writeFile(`${value}\n`)
    await file.sync()
  }
  try {
    await link(unfinished, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    await rm(unfinished, { force: true })
  }
}
