import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { formatLoginPasswords, parseLoginPasswords } from '@postern/tenant-db'
import {
  type RingName,
  isRing,
  makeSigningKey,
  passwordNames,
  randomPassword,
  randomRing,
  replaceFile,
  ringNames,
  signingKeyFiles,
} from './secrets.ts'

/** Those of services at PostgreSQL, and those of Redis and of the store: two are accepted while one is replaced. */
const passwords = passwordNames
  .filter((name) => name !== 'superuser' && name !== 'migrator')
  .map((name) => `password-${name}`)

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

/** Takes one step with one ring of a secrets folder. Throws, and changes nothing, when the step is not the next one. */
export async function rotateRing(folder: string, name: RingName, step: RotationStep): Promise<void> {
  const path = join(folder, name)
  const text = (await readFile(path, 'utf8')).trim()
  if (!isRing(text)) throw new Error(`${path} does not hold a key ring`)
  await replaceFile(path, nextRing(text, name, step))
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
    await replaceFile(join(folder, name), randomPassword())
    return
  }
  const ring = ringNames.find((known) => known === name)
  if (ring !== undefined) await rotateRing(folder, ring, step)
  else if (passwords.includes(name)) await rotatePassword(folder, name, step)
  else await rotateSigningKey(folder, name, step)
}

async function rotatePassword(folder: string, name: string, step: RotationStep): Promise<void> {
  const path = join(folder, name)
  const [current, other] = parseLoginPasswords((await readFile(path, 'utf8')).trim())
  if (step === 'add') {
    if (other !== undefined) throw new Error(`${name} holds two: a rotation is under way, promote or retire first`)
    const next = { login: current.login === 'a' ? 'b' : 'a', password: randomPassword() } as const
    await replaceFile(path, formatLoginPasswords([current, next]))
    return
  }
  if (other === undefined) throw new Error(`${name} holds one password: begin a rotation with the step add`)
  await replaceFile(path, formatLoginPasswords(step === 'promote' ? [other, current] : [current]))
}

async function rotateSigningKey(folder: string, name: string, step: RotationStep): Promise<void> {
  const file = Object.entries(signingKeyFiles).find(([known]) => known === name)?.[1]
  if (file === undefined) throw new Error(`there is no secret ${name}: there are ${rotatableNames.join(' ')}`)
  const path = join(folder, file)
  const keys = (await readFile(path, 'utf8')).match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? []
  await replaceFile(path, nextKeys(keys, name, step).join('\n'))
}

function nextKeys([signing, ...others]: readonly string[], name: string, step: RotationStep): readonly string[] {
  if (signing === undefined) throw new Error(`${name} holds no key`)
  // Published from now on, so that who checks knows it before it signs.
  if (step === 'add') return [signing, makeSigningKey().trim(), ...others]
  const [next, ...older] = others
  if (next === undefined) throw new Error(`${name} holds one key: begin a rotation with the step add`)
  return step === 'promote' ? [next, signing, ...older] : [signing, ...others.slice(0, -1)]
}

function nextRing(text: string, name: RingName, step: RotationStep): string {
  const [current = '', other, ...more] = text.split(',')
  if (more.length > 0) throw new Error(`${name} holds more than two keys`)
  if (step === 'add') {
    if (other !== undefined) throw new Error(`${name} holds two keys: a rotation is under way, promote or retire first`)
    return `${current},${randomRing(freshId(current))}`
  }
  if (other === undefined) throw new Error(`${name} holds one key: begin a rotation with the step add`)
  return step === 'promote' ? `${other},${current}` : current
}

/** Ids say the second in which a key was made; a second rotation within it must not give the same. */
function freshId(current: string): string | undefined {
  const id = randomRing().split(':')[0] ?? ''
  return current.startsWith(`${id}:`) ? `${id}b` : id
}
