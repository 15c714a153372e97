import { createPrivateKey, generateKeyPairSync, randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import { parseLoginPasswords } from '@postern/tenant-db'

/** The rings (a key id and 32 random bytes each) that the parts of Postern share, by the name of their variable. */
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
  'POSTERN_INTERNAL',
  'POSTERN_CACHE_MAC',
  'POSTERN_CONSOLE_SESSION',
  'POSTERN_SYNC_SECRETS',
] as const
export type RingName = (typeof ringNames)[number]

/** Those who log in to PostgreSQL, Redis or the store of the compose file with a password. `superuser` only starts the stack, `migrator` migrates. */
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

/** The file of older installations whose components all log in to Redis with one password, as the user `default`. */
export const sharedRedisPasswordFile = 'password-redis'

/** Files with the Ed25519 keys (PKCS #8 PEM) whose signatures others check, by the variable that they are handed out as. */
export const signingKeyFiles = {
  POSTERN_RECEIPT_KEY: 'evidence-receipt-key.pem',
  POSTERN_CHECKPOINT_KEY: 'findings-checkpoint-key.pem',
} as const

/** All secrets of one installation. */
export interface Secrets {
  readonly folder: string
  readonly rings: Readonly<Record<RingName, string>>
  /** As `parseLoginPasswords` of tenant-db reads them: one, or two while one is replaced. */
  readonly passwords: Readonly<Record<PasswordName, string>>
  /** Of `sharedRedisPasswordFile`, in the same form. Undefined if each component has its own login at Redis. */
  readonly sharedRedisPasswords: string | undefined
  /** File with the keys of receipts of evidence: the first signs, the others are published only. */
  readonly receiptKeyFile: string
  /** File with the keys of checkpoints of the tracker log, in the same form. */
  readonly checkpointKeyFile: string
  /** File with the secret that the console shows to the OpenID provider. Of another's making, it is put there by hand. */
  readonly oidcClientSecretFile: string
  /** File that holds the ring: services are given its path, not its content. */
  ringFile(name: RingName): string
  /** Puts a value that is made anew at each start (a connection string) into a file of the folder, or of one below it. */
  put(name: string, value: string): Promise<string>
}

/** The variable with a service's own signing ring. */
export const signingRings = {
  keys: 'POSTERN_SIGNING_KEYS',
  findings: 'POSTERN_SIGNING_FINDINGS',
  universe: 'POSTERN_SIGNING_UNIVERSE',
  evidence: 'POSTERN_SIGNING_EVIDENCE',
  sync: 'POSTERN_SIGNING_SYNC',
} as const satisfies Record<Upstream, RingName>

/** A new ring as configuration text: `id:base64url`. The id says when it was made, the secret is 32 random bytes. */
export function randomRing(id = `k${Math.floor(Date.now() / 1000).toString(36)}`): string {
  return `${id}:${randomBytes(32).toString('base64url')}`
}

/** A new password: 256 random bits in characters that need no escape in a URL or a configuration file. */
export function randomPassword(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * The secrets in a folder, each made when it is first asked for and kept from then on. The folder is open to its owner
 * alone (0700), so is each file (0600). `given` are rings that come from elsewhere; one in the folder stays.
 */
export async function openSecrets(folder: string, given: Partial<Record<RingName, string>> = {}): Promise<Secrets> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const rings = new Map<RingName, string>()
  for (const name of ringNames) {
    rings.set(name, await readOrMake(join(folder, name), () => given[name] ?? randomRing(), isRing))
  }
  const passwords = new Map<PasswordName, string>()
  for (const name of passwordNames) {
    passwords.set(name, await readOrMake(join(folder, `password-${name}`), randomPassword, isPassword))
  }
  const shared = join(folder, sharedRedisPasswordFile)
  const sharedRedisPasswords = await readIfThere(shared)
  if (sharedRedisPasswords !== undefined && !isPassword(sharedRedisPasswords)) throw unreadable(shared)
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
      // Who reads it meanwhile, as PgBouncer does by itself, finds the old one or the new one, and never none.
      await replaceFile(path, value)
      return path
    },
  }
}

function complete<Name extends string>(
  names: readonly Name[],
  values: ReadonlyMap<Name, string>,
): Record<Name, string> {
  const entries = names.map((name) => [name, values.get(name) ?? ''])
  return Object.fromEntries(entries)
}

/** Whether a text is one that `openSecrets` takes for a ring. */
export function isRing(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]{43}(,[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]{43})*$/.test(text)
}

/** One password, or the two of a rotation. */
function isPassword(text: string): boolean {
  return parseLoginPasswords(text).every(({ password }) => /^[A-Za-z0-9_-]{43}$/.test(password))
}

/** Whatever a provider may hand out: printable, on one line. */
function isClientSecret(text: string): boolean {
  return /^[\x21-\x7e]{16,512}$/.test(text)
}

/** A new Ed25519 key, PKCS #8 in PEM. */
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
  // Never replaced by a new one: what was encrypted, signed or stored under it would be lost without a word.
  if (!isValid(found)) throw unreadable(path)
  return found
}

function unreadable(path: string): Error {
  return new Error(`${path} does not hold what it should: restore it, or remove it for a new one`)
}

/** What a file holds, without the blanks around it; undefined where there is no such file. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Puts another text into the place of a file, whole or not at all. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await rm(unfinished, { force: true })
  await writeFile(unfinished, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true })
  await rename(unfinished, path)
}

/** Writes a file that is there whole or not at all; the one that is there first stays. */
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
