import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type RingName,
  isRing,
  makeSigningKey,
  passwordNames,
  randomPassword,
  randomRing,
  ringNames,
  signingKeyFiles,
} from './secrets.ts'

/** Passwords that one command gives anew to who checks them and to who shows them. That of the superuser is PostgreSQL's own affair. */
const passwords = passwordNames.filter((name) => name !== 'superuser').map((name) => `password-${name}`)

/** All that can be rotated, by its name on the command line. */
export const rotatableNames: readonly string[] = [...ringNames, ...Object.keys(signingKeyFiles), ...passwords]

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
 * stay published for years: `retire` takes the oldest away. A password, of which there is but one, knows `replace` alone.
 */
export async function rotateSecret(folder: string, name: string, step: RotationStep | 'replace'): Promise<void> {
  if (passwords.includes(name) !== (step === 'replace')) {
    throw new Error(
      step === 'replace' ? 'only a password is replaced' : `${name} has one value: the only step is replace`,
    )
  }
  if (step === 'replace') {
    await replaceFile(join(folder, name), randomPassword())
    return
  }
  const ring = ringNames.find((known) => known === name)
  if (ring === undefined) await rotateSigningKey(folder, name, step)
  else await rotateRing(folder, ring, step)
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

async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new-${process.pid}`
  await writeFile(unfinished, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true })
  await rename(unfinished, path)
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
