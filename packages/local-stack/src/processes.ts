import { execFile, spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { guardProcess, releaseProcess } from './process-guard.ts'
import type { ServerAccount } from './server-account.ts'

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ManagedProcess {
  readonly name: string
  readonly pid: number
  /** The previous log has the suffix `.1`. */
  readonly logFile: string
  readonly exited: Promise<Exit>
  readonly running: boolean
  kill(signal: NodeJS.Signals): void
  /** Uses SIGKILL after the time limit. Resolves when the process has ended. */
  stop(timeoutMs?: number): Promise<Exit>
}

export interface LaunchOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly logFile: string
  readonly input?: string
  readonly account?: ServerAccount | undefined
  readonly stopSignal?: 'SIGTERM' | 'SIGINT'
}

const defaultStopTimeoutMs = 15_000
const logTailBytes = 4_096

function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true })
  if (existsSync(path)) renameSync(path, `${path}.1`)
  return openSync(path, 'a', 0o600)
}

/** Uses a separate process group, so that Ctrl-C reaches only this process. */
export async function launch(options: LaunchOptions): Promise<ManagedProcess> {
  const { name, logFile, stopSignal = 'SIGTERM' } = options
  const log = openLog(logFile)
  const child = spawn(options.command, options.args, {
    cwd: options.cwd,
    env: { ...options.env },
    detached: true,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', log, log],
    ...options.account,
  })
  closeSync(log)
  const spawned = Promise.withResolvers<number>()
  const ended = Promise.withResolvers<Exit>()
  let running = true
  child.once('error', (cause) => {
    running = false
    spawned.reject(new Error(`Could not start ${name}: ${options.command}`, { cause }))
  })
  child.once('spawn', () => spawned.resolve(child.pid ?? 0))
  child.once('exit', (code, signal) => {
    running = false
    if (child.pid !== undefined) releaseProcess(child.pid)
    ended.resolve({ code, signal })
  })
  if (child.pid !== undefined) guardProcess(child.pid, stopSignal)
  if (child.stdin !== null) {
    child.stdin.on('error', () => undefined)
    child.stdin.end(options.input)
  }
  const pid = await spawned.promise
  return {
    name,
    pid,
    logFile,
    exited: ended.promise,
    get running() {
      return running
    },
    kill: (signal) => {
      child.kill(signal)
    },
    stop: async (timeoutMs = defaultStopTimeoutMs) => {
      if (!running) return await ended.promise
      child.kill(stopSignal)
      // A frozen process must continue to handle the signal.
      child.kill('SIGCONT')
      const force = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
      try {
        return await ended.promise
      } finally {
        clearTimeout(force)
      }
    },
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // It belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** Returns undefined if it cannot be read. */
export async function commandOf(pid: number): Promise<string | undefined> {
  try {
    if (process.platform === 'linux') {
      return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim()
    }
    const { stdout } = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])
    return stdout.trim()
  } catch {
    return undefined
  }
}

async function readLogTail(logFile: string): Promise<string> {
  try {
    await using file = await open(logFile, 'r')
    const { size } = await file.stat()
    const length = Math.min(size, logTailBytes)
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.toString('utf8').trim()
  } catch {
    return ''
  }
}

export async function startFailure(process: Pick<ManagedProcess, 'name' | 'logFile'>, what: string): Promise<Error> {
  const tail = await readLogTail(process.logFile)
  const shown = tail === '' ? '' : `\n${tail.replaceAll(/^/gm, `  ${process.name}| `)}`
  return new Error(`${process.name} ${what} (log: ${process.logFile})${shown}`)
}

/** Stops the process and throws if it ends, the check fails or the time is over. */
export async function waitUntilReady(
  process: ManagedProcess,
  isReady: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  try {
    while (!(await isReady())) {
      if (!process.running) {
        const exit = await process.exited
        throw await startFailure(process, `ended during its start (${exit.signal ?? `exit code ${exit.code}`})`)
      }
      if (performance.now() > deadline)
        throw await startFailure(process, `did not become ready in ${timeoutMs / 1000} s`)
      await delay(10)
    }
  } catch (error) {
    await process.stop()
    throw error
  }
}

/** Undefined until the line is there. */
export function findListeningPort(logFile: string, name: 'port' | 'admin_port' = 'port'): number | undefined {
  for (const line of readFileSync(logFile, 'utf8').split('\n')) {
    if (!line.startsWith('{') || !line.includes('"listening"')) continue
    const port = parseListening(line, name)
    if (port !== undefined) return port
  }
  return undefined
}

function parseListening(line: string, name: string): number | undefined {
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch {
    return undefined
  }
  if (typeof entry !== 'object' || entry === null) return undefined
  if (!('event' in entry) || entry.event !== 'listening') return undefined
  const port: unknown = Reflect.get(entry, name)
  return typeof port === 'number' ? port : undefined
}
