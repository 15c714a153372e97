import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { commandOf, isAlive } from './processes.ts'

/** The right to run a stack from a home, for one process at a time. */
export interface HomeLock {
  /** Whether an earlier start ended without giving the lock back: processes of its may still be on their way out. */
  readonly wasAbandoned: boolean
  release(): Promise<void>
}

/** Another start runs from the same home. */
export class HomeInUse extends Error {
  constructor(home: string, pid: number) {
    super(`postern already runs from ${home} (process ${pid}): stop it first, or set POSTERN_HOME to another folder`)
    this.name = 'HomeInUse'
  }
}

/** Takes the lock of a home, or fails with HomeInUse. The lock of a process that is gone is taken over. */
export async function lockHome(home: string): Promise<HomeLock> {
  const path = join(home, 'start.lock')
  const mine = `${path}.${process.pid}`
  // Written first and then linked, so that nobody ever reads a lock without its number.
  await writeFile(mine, `${process.pid}\n`)
  let wasAbandoned = false
  try {
    for (;;) {
      if (await tryLink(mine, path)) break
      const pid = await readHolder(path)
      if (pid === undefined) continue
      if (await isStart(pid)) throw new HomeInUse(home, pid)
      wasAbandoned = true
      // Set aside under a name of our own: of two that find the same dead holder, one renames and the other tries again.
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

/** Gives a file a second name, unless something has that name: false then. Of several at once one succeeds. */
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

/** Whether the process lives and is a start of ours: its number may belong to another program by now. */
async function isStart(pid: number): Promise<boolean> {
  if (pid === process.pid || pid === 0 || !isAlive(pid)) return false
  const command = await commandOf(pid)
  return command === undefined || /\bstart\.(?:ts|mjs)\b|vitest/.test(command)
}
