import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type RingName, isRing, randomRing } from './secrets.ts'

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
  const unfinished = `${path}.new-${process.pid}`
  await writeFile(unfinished, `${nextRing(text, name, step)}\n`, { mode: 0o600, flag: 'wx', flush: true })
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
