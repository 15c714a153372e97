import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

export interface Running {
  stop(): Promise<void>
}

const stopMs = 20_000

/** Undefined if the program is not installed. Throws if it fails or takes too long. */
export async function run(
  command: string,
  args: readonly string[],
  options: { readonly timeoutMs: number; readonly cwd?: string; readonly env?: Readonly<Record<string, string>> },
): Promise<string | undefined> {
  const { timeoutMs, cwd, env = {} } = options
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
  execFile(
    command,
    args,
    { timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024, cwd, env: { ...process.env, ...env } },
    (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else if (error.code === 'ENOENT') resolve(undefined)
      else reject(new Error(`${command} failed: ${`${stdout}${stderr}`.trim().split('\n').slice(-5).join(' | ')}`))
    },
  )
  return await promise
}

/** `stop` ends its process group, and kills it if it does not end. */
export function launch(
  command: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly logFile: string; readonly env?: Readonly<Record<string, string>> },
): Running & { readonly hasEnded: () => boolean } {
  const { cwd, logFile, env = {} } = options
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const log = createWriteStream(logFile)
  child.stdout.pipe(log, { end: false })
  child.stderr.pipe(log, { end: false })
  const exited = once(child, 'exit')
  const signal = (name: NodeJS.Signals): void => {
    if (child.pid === undefined) return
    try {
      process.kill(-child.pid, name)
    } catch {
      // The group has ended.
    }
  }
  return {
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    stop: async () => {
      signal('SIGTERM')
      const hasEnded = await Promise.race([exited.then(() => true), delay(stopMs, false, { ref: false })])
      if (!hasEnded) signal('SIGKILL')
      await exited
      log.end()
    },
  }
}

/** Returns the milliseconds it took, or undefined after `timeoutMs`. */
export async function waitFor(
  ask: () => Promise<boolean>,
  timeoutMs: number,
  everyMs = 25,
): Promise<number | undefined> {
  const began = performance.now()
  for (;;) {
    const isTrue = await ask().catch(() => false)
    const took = performance.now() - began
    if (isTrue) return Math.round(took)
    if (took > timeoutMs) return undefined
    await delay(everyMs)
  }
}
