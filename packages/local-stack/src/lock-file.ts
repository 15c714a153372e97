import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { isAlive } from './processes.ts'

export type LockAttempt =
  | { readonly isOurs: true; readonly wasAbandoned: boolean }
  | { readonly isOurs: false; readonly holder: number }

/** Creates a file with the id of this process, unless a live process has it. Takes over the file of an ended process. */
export async function tryLock(
  path: string,
  isHolder: (pid: number) => boolean | Promise<boolean> = isAlive,
): Promise<LockAttempt> {
  const mine = uniqueName(path)
  // Written first, so that a lock always has a process id.
  await writeFile(mine, `${process.pid}\n`)
  let wasAbandoned = false
  try {
    while (!(await tryLink(mine, path))) {
      const holder = await readHolder(path)
      if (holder === undefined) continue
      if (holder > 0 && (await isHolder(holder))) return { isOurs: false, holder }
      await removeAbandoned(path, holder)
      wasAbandoned = true
    }
    return { isOurs: true, wasAbandoned }
  } finally {
    await rm(mine, { force: true })
  }
}

export async function releaseLock(path: string): Promise<void> {
  if ((await readHolder(path)) === process.pid) await rm(path, { force: true })
}

async function removeAbandoned(path: string, abandonedBy: number): Promise<void> {
  const moved = uniqueName(path)
  try {
    await rename(path, moved)
  } catch (error) {
    ignoreMissing(error)
    return
  }
  // Another process may have taken the lock over before the move.
  if ((await readHolder(moved)) !== abandonedBy) await tryLink(moved, path)
  await rm(moved, { force: true })
}

function uniqueName(path: string): string {
  return `${path}.${process.pid}.${randomUUID()}`
}

/** Returns false if the name exists. */
async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/** Returns 0 for a file without a process id, and undefined without a file. */
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
