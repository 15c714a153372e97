import { join } from 'node:path'
import { releaseLock, tryLock } from './lock-file.ts'
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
  const attempt = await tryLock(path, isStart)
  if (!attempt.isOurs) throw new HomeInUseError(home, attempt.holder)
  return { wasAbandoned: attempt.wasAbandoned, release: async () => await releaseLock(path) }
}

/** Another program may have the id by now. */
async function isStart(pid: number): Promise<boolean> {
  if (pid === process.pid || !isAlive(pid)) return false
  const command = await commandOf(pid)
  return command === undefined || /\bstart\.(?:ts|mjs)\b|vitest/.test(command)
}
