import { hash } from 'node:crypto'
import { join } from 'node:path'
import { type LoginPassword, formatLoginPasswords, parseLoginPasswords } from '@postern/tenant-db'
import {
  type RingName,
  isRing,
  makeSigningKey,
  passwordNames,
  randomPassword,
  randomRing,
  readIfThere,
  replaceFile,
  ringNames,
  sharedRedisPasswordFile,
  signingKeyFiles,
} from './secrets.ts'

const passwords = [
  ...passwordNames.filter((name) => name !== 'superuser' && name !== 'migrator').map((name) => `password-${name}`),
  sharedRedisPasswordFile,
]

/** Migrations set this password before they use it. PostgreSQL's administrator owns the superuser's. */
const replaceable: readonly string[] = ['password-migrator']

export const rotatableNames: readonly string[] = [
  ...ringNames,
  ...Object.keys(signingKeyFiles),
  ...passwords,
  ...replaceable,
]

/**
 * Restart every process between two steps. `add` accepts a new key, `promote` uses it, `retire` removes the old one.
 */
export const rotationSteps = ['add', 'promote', 'retire'] as const
export type RotationStep = (typeof rotationSteps)[number]

/** The format of a file with keys of a ring, passwords or PEM keys. The first entry is in use. */
interface SecretFormat {
  readonly file: string
  read(text: string): readonly string[]
  write(entries: readonly string[]): string
  make(entries: readonly string[]): string
  /** Whether old entries stay, as those of published keys do; otherwise there are at most two. */
  readonly keepsOld: boolean
}

/** Throws, without a change, if it is not the next step. */
export async function rotateRing(folder: string, name: RingName, step: RotationStep): Promise<void> {
  await applyStep(folder, name, step, {
    file: name,
    read: (text) => {
      if (!isRing(text)) throw new Error(`${join(folder, name)} does not contain a key ring`)
      return text.split(',')
    },
    write: (entries) => entries.join(','),
    make: ([current = '']) => randomRing(freshId(current)),
    keepsOld: false,
  })
}

/** For published keys, `retire` removes the oldest. The migrator's password has the single step `replace`. */
export async function rotateSecret(folder: string, name: string, step: RotationStep | 'replace'): Promise<void> {
  if (replaceable.includes(name) !== (step === 'replace')) {
    throw new Error(
      step === 'replace'
        ? `${name} is replaced in three steps: ${rotationSteps.join(', ')}`
        : `${name} has only the step replace`,
    )
  }
  if (step === 'replace') {
    const path = join(folder, name)
    await readSecret(path)
    await replaceFile(path, randomPassword())
    return
  }
  const ring = ringNames.find((known) => known === name)
  if (ring !== undefined) await rotateRing(folder, ring, step)
  else if (passwords.includes(name)) await rotatePassword(folder, name, step)
  else await rotateSigningKey(folder, name, step)
}

async function rotatePassword(folder: string, name: string, step: RotationStep): Promise<void> {
  const isShared = name === sharedRedisPasswordFile
  if (isShared && (await readIfThere(join(folder, name))) === undefined) {
    throw new Error(`${join(folder, name)} does not exist. Rotate password-redis-keys, -gateway, -console or -admin`)
  }
  await applyStep(folder, name, step, {
    file: name,
    read: (text) => parseLoginPasswords(text).map((each) => formatLoginPasswords([each])),
    write: (entries) => formatLoginPasswords(entries.map(loginOf)),
    make: ([current = '']) =>
      formatLoginPasswords([{ login: loginOf(current).login === 'a' ? 'b' : 'a', password: randomPassword() }]),
    keepsOld: false,
  })
}

function loginOf(entry: string): LoginPassword {
  return parseLoginPasswords(entry)[0]
}

async function rotateSigningKey(folder: string, name: string, step: RotationStep): Promise<void> {
  const file = Object.entries(signingKeyFiles).find(([known]) => known === name)?.[1]
  if (file === undefined) throw new Error(`the secret ${name} does not exist. Use one of ${rotatableNames.join(' ')}`)
  await applyStep(folder, name, step, {
    file,
    read: (text) => text.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? [],
    write: (entries) => entries.join('\n'),
    make: () => makeSigningKey().trim(),
    keepsOld: true,
  })
}

/**
 * `add` stores the new entry's digest beside the secret, so that a repeated or skipped step cannot reactivate a leaked
 * key.
 */
async function applyStep(folder: string, name: string, step: RotationStep, format: SecretFormat): Promise<void> {
  const path = join(folder, format.file)
  const notePath = `${path}.rotation`
  const entries = format.read(await readSecret(path))
  const [current, other, ...older] = entries
  if (current === undefined) throw new Error(`${name} contains no key`)
  if (!format.keepsOld && older.length > 0) throw new Error(`${name} contains more than two keys`)
  const noted = await readIfThere(notePath)
  const isNew = (entry: string | undefined) => entry !== undefined && digestOf(entry) === noted
  if (step === 'add') {
    if (isNew(other)) throw new Error(`${name}: a rotation is in progress; the next step is promote`)
    if (other !== undefined && !format.keepsOld) {
      throw new Error(
        `${name}: a rotation is in progress; the next step is ${isNew(current) ? 'retire' : 'promote or retire'}`,
      )
    }
    const added = format.make(entries)
    await replaceFile(notePath, digestOf(added))
    // Verifiers must know an entry before it is used.
    await replaceFile(path, format.write([current, added, ...entries.slice(1)]))
    return
  }
  if (other === undefined) throw new Error(`${name} has one value; the first step of a rotation is add`)
  if (step === 'promote') {
    if (isNew(current)) throw new Error(`${name}: the new value is already in use; the next step is retire`)
    // Old keys stay, so only the digest shows that one is new.
    if (format.keepsOld && !isNew(other)) {
      throw new Error(`${name}: the second value may not be new; the first step of a rotation is add`)
    }
    await replaceFile(path, format.write([other, current, ...older]))
    if (!isNew(other)) await replaceFile(notePath, digestOf(other))
    return
  }
  if (isNew(other)) throw new Error(`${name}: the new value is not in use yet; the next step is promote`)
  await replaceFile(path, format.write(entries.slice(0, -1)))
}

async function readSecret(path: string): Promise<string> {
  const text = await readIfThere(path)
  if (text === undefined) {
    throw new Error(`${path} does not exist. Pass the secrets folder that \`secrets init\` created`)
  }
  return text
}

/** Reveals nothing: each entry contains 256 random bits. */
function digestOf(entry: string): string {
  return hash('sha256', entry)
}

/** Two rotations within a second need different ids. */
function freshId(current: string): string | undefined {
  const id = randomRing().split(':')[0] ?? ''
  return current.startsWith(`${id}:`) ? `${id}b` : id
}
