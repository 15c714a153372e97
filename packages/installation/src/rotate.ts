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

/** Those of services at PostgreSQL, and those of Redis and of the store: two are accepted while one is replaced. */
const passwords = [
  ...passwordNames.filter((name) => name !== 'superuser' && name !== 'migrator').map((name) => `password-${name}`),
  sharedRedisPasswordFile,
]

/** Shown by the migrations alone, which set it first: nobody else is refused meanwhile. That of the superuser is PostgreSQL's own affair. */
const replaced: readonly string[] = ['password-migrator']

/** All that can be rotated, by its name on the command line. */
export const rotatableNames: readonly string[] = [
  ...ringNames,
  ...Object.keys(signingKeyFiles),
  ...passwords,
  ...replaced,
]

/**
 * The three steps of a rotation. After each one every process must have been restarted before the next: then no process
 * ever meets a signature of a key that it does not know, in whatever order they restart.
 *
 * - `add`: a new key that is accepted everywhere, and that nobody signs with yet
 * - `promote`: the new key signs, the old one is still accepted
 * - `retire`: the old key is gone
 */
export const rotationSteps = ['add', 'promote', 'retire'] as const
export type RotationStep = (typeof rotationSteps)[number]

/** What each secret is made of, the first in use: keys of a ring, passwords, PEM keys. */
interface Form {
  readonly file: string
  read(text: string): readonly string[]
  write(entries: readonly string[]): string
  /** A new one that can stand beside these. */
  make(entries: readonly string[]): string
  /** Whether old ones stay beside each other for years, as published keys do; else there are two at the most. */
  readonly keepsOld: boolean
}

/** Takes one step with one ring of a secrets folder. Throws, and changes nothing, when the step is not the next one. */
export async function rotateRing(folder: string, name: RingName, step: RotationStep): Promise<void> {
  await takeStep(folder, name, step, {
    file: name,
    read: (text) => {
      if (!isRing(text)) throw new Error(`${join(folder, name)} does not hold a key ring`)
      return text.split(',')
    },
    write: (entries) => entries.join(','),
    make: ([current = '']) => randomRing(freshId(current)),
    keepsOld: false,
  })
}

/**
 * Takes one step with any secret of a folder. Keys that sign what others check know the same steps, but that the old ones may
 * stay published for years: `retire` takes the oldest away. So do passwords: `promote` lets services log in with the new one.
 * The migrator's knows `replace` alone.
 */
export async function rotateSecret(folder: string, name: string, step: RotationStep | 'replace'): Promise<void> {
  if (replaced.includes(name) !== (step === 'replace')) {
    throw new Error(
      step === 'replace'
        ? `${name} is replaced in three steps: ${rotationSteps.join(', ')}`
        : `${name} has one value: the only step is replace`,
    )
  }
  if (step === 'replace') {
    const path = join(folder, name)
    // Only what is there is replaced: in another folder it would be a password that nobody asks for.
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
    throw new Error(`${join(folder, name)} is not there: rotate password-redis-keys, -gateway, -console or -admin`)
  }
  await takeStep(folder, name, step, {
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
  if (file === undefined) throw new Error(`there is no secret ${name}: there are ${rotatableNames.join(' ')}`)
  await takeStep(folder, name, step, {
    file,
    read: (text) => text.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? [],
    write: (entries) => entries.join('\n'),
    make: () => makeSigningKey().trim(),
    keepsOld: true,
  })
}

/**
 * Which of two is the new one cannot be told from their order: after `add` it is the second, after `promote` the first. So `add` notes
 * it beside the secret, by its digest, and before the secret itself: a step that is taken twice, or left out, is refused, where it would put
 * the old one, perhaps a leaked one, back in use. A rotation that a release before has begun has no note, and goes on as it did, but for keys
 * of which old ones stay: it begins anew.
 */
async function takeStep(folder: string, name: string, step: RotationStep, form: Form): Promise<void> {
  const path = join(folder, form.file)
  const notePath = `${path}.rotation`
  const entries = form.read(await readSecret(path))
  const [current, other, ...older] = entries
  if (current === undefined) throw new Error(`${name} holds no key`)
  if (!form.keepsOld && older.length > 0) throw new Error(`${name} holds more than two keys`)
  const noted = await readIfThere(notePath)
  const isNew = (entry: string | undefined) => entry !== undefined && digestOf(entry) === noted
  if (step === 'add') {
    if (isNew(other)) throw new Error(`${name}: a rotation is under way, and promote is its next step`)
    if (other !== undefined && !form.keepsOld) {
      throw new Error(
        `${name} holds two: a rotation is under way, ${isNew(current) ? 'retire' : 'promote or retire'} first`,
      )
    }
    const added = form.make(entries)
    await replaceFile(notePath, digestOf(added))
    // Published, or accepted, from now on, so that who checks knows it before it is used.
    await replaceFile(path, form.write([current, added, ...entries.slice(1)]))
    return
  }
  if (other === undefined) throw new Error(`${name} holds one: begin a rotation with the step add`)
  if (step === 'promote') {
    if (isNew(current)) throw new Error(`${name}: the new one is in use already, and retire is the next step`)
    // Old keys stand beside the one in use for years: only the note says that one of them is new.
    if (form.keepsOld && !isNew(other)) {
      throw new Error(`${name}: nothing says that the second one is new; begin a rotation with the step add`)
    }
    await replaceFile(path, form.write([other, current, ...older]))
    if (!isNew(other)) await replaceFile(notePath, digestOf(other))
    return
  }
  if (isNew(other)) throw new Error(`${name}: the new one is not in use yet, and promote is the next step`)
  await replaceFile(path, form.write(entries.slice(0, -1)))
}

async function readSecret(path: string): Promise<string> {
  const text = await readIfThere(path)
  if (text === undefined) {
    throw new Error(
      `${path} is not there: name the folder that holds the secrets of the installation, as secrets init has made them`,
    )
  }
  return text
}

/** Says which one it is, and nothing of it: each holds 256 random bits. */
function digestOf(entry: string): string {
  return hash('sha256', entry)
}

/** Ids say the second in which a key was made; a second rotation within it must not give the same. */
function freshId(current: string): string | undefined {
  const id = randomRing().split(':')[0] ?? ''
  return current.startsWith(`${id}:`) ? `${id}b` : id
}
