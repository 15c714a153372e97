import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandOf, isAlive } from './processes.ts'

export interface HomeLock {
  /** The processes of a killed start may still be ending. */
  readonly wasAbandoned: boolean
  release(): Promise<void>
}

export class HomeInUseError extends Error {
  constructor(home: string, pid: number) {
    super(`postern already runs from ${home} (process ${pid}): stop it first, or set POSTERN_HOME to another folder`)
    this.name = 'HomeInUseError'
  }
}

/** Throws `HomeInUseError`. Takes over the lock of a process that has ended. */
export async function lockHome(home: string): Promise<HomeLock> {
  const path = join(home, 'start.lock')
  const mine = `${path}.${process.pid}`
  // Written first, so that a lock always has a process id.
  await writeFile(mine, `${process.pid}\n`)
  let wasAbandoned = false
  try {
    for (;;) {
      if (await tryLink(mine, path)) break
      const pid = await readHolder(path)
      if (pid === undefined) continue
      if (await isStart(pid)) throw new HomeInUseError(home, pid)
      wasAbandoned = true
      // Only one process can rename the file of a dead holder.
      await rename(path, `${mine}.old`).catch(ignoreMissing)
      await rm(`${mine}.old`, { force: true })
    }
  } finally {
    await rm(mine, { force: true })
  }
  return {
    wasAbandoned,
    release: async () => {
      if ((await readHolder(path)) === process.pid) await rm(path, { force: true })
    },
  }
}

/** Returns false if the name exists. */
export async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

async function readHolder(path: string): Promise<number | undefined> {
  try {
    const pid = Number.parseInt(await readFile(path, 'utf8'), 10)
    return Number.isSafeInteger(pid) && pid > 0 ? pid : 0
  } catch (error) {
    ignoreMissing(error)
    return undefined
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
}

/** Another program may have the id by now. */
async function isStart(pid: number): Promise<boolean> {
  if (pid === process.pid || pid === 0 || !isAlive(pid)) return false
  const command = await commandOf(pid)
  return command === undefined || /\bstart\.(?:ts|mjs)\b|vitest/.test(command)
}
