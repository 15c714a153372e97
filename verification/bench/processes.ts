import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { cpus } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

export const loadCore = 0
export const measuredCore = 1

export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

const taskset = cpus().length > 1 ? findProgram('taskset') : undefined

export const isPinned = taskset !== undefined

export function pin(pid: number, core: number): void {
  if (taskset !== undefined) execFileSync(taskset, ['-a', '-c', '-p', String(core), String(pid)], { stdio: 'ignore' })
}

export function pinned(command: string, args: readonly string[], core: number): readonly [string, readonly string[]] {
  return taskset === undefined ? [command, args] : [taskset, ['-c', String(core), command, ...args]]
}

export interface Peer {
  readonly name: string
  readonly pid: number
  readonly url: string
  stop(): Promise<void>
}

export async function startPeer(options: {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly port: number
  readonly core: number
  readonly env?: Readonly<Record<string, string>>
}): Promise<Peer> {
  const { name, port } = options
  const [command, args] = pinned(options.command, options.args, options.core)
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'] ?? '', NODE_ENV: 'production', ...options.env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const kill = (): void => void child.kill('SIGKILL')
  const stop = async (): Promise<void> => {
    await stopChild(child)
    process.off('exit', kill)
  }
  process.once('exit', kill)
  try {
    await waitForPort(child, name, port)
  } catch (error) {
    await stop()
    throw error
  }
  return { name, pid: child.pid ?? 0, url: `http://127.0.0.1:${port}`, stop }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  const force = setTimeout(() => child.kill('SIGKILL'), 3000)
  await ended
  clearTimeout(force)
}

async function waitForPort(child: ChildProcess, name: string, port: number): Promise<void> {
  let failure: unknown
  child.once('error', (error) => {
    failure = error
  })
  const deadline = performance.now() + 20_000
  while (performance.now() < deadline) {
    if (failure !== undefined || child.exitCode !== null) {
      throw new Error(`${name} did not start (exit code ${child.exitCode})`, { cause: failure })
    }
    if (await canConnect(port)) return
    await delay(50)
  }
  throw new Error(`${name} does not listen on port ${port}`)
}

async function canConnect(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = createConnection({ host: '127.0.0.1', port })
  socket.once('connect', () => resolve(true))
  socket.once('error', () => resolve(false))
  const can = await promise
  socket.destroy()
  return can
}

const ticksPerSecond = readTicksPerSecond()

function readTicksPerSecond(): number {
  try {
    return Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  } catch {
    return 100
  }
}

/** Undefined without /proc. */
export function cpuOf(pid: number): number | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
  // The second field, the name, may contain spaces; utime and stime are fields 14 and 15.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1_000_000
}

export function machineTime(): { readonly total: number; readonly stolen: number } {
  let text: string
  try {
    text = readFileSync('/proc/stat', 'utf8')
  } catch {
    return { total: performance.now(), stolen: 0 }
  }
  // user, nice, system, idle, iowait, irq, softirq, steal; user includes guests.
  const ticks = (text.split('\n')[0] ?? '').trim().split(/\s+/).slice(1, 9).map(Number)
  return { total: ticks.reduce((sum, value) => sum + value, 0), stolen: ticks[7] ?? 0 }
}
