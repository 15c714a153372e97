import { rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { tryLock } from './lock-file.ts'

export const loopback = '127.0.0.1'

// Linux uses ports from 32768 for outgoing connections.
const firstFreePort = 20_000
const lastFreePort = 31_999

export async function isPortFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const probe = createServer()
  probe.once('error', () => resolve(false))
  probe.listen({ host: loopback, port, exclusive: true }, () => probe.close(() => resolve(true)))
  return await promise
}

export async function findFreePort(): Promise<number> {
  const span = lastFreePort - firstFreePort + 1
  const start = (process.pid * 7919) % span
  for (let step = 0; step < span; step += 1) {
    const port = firstFreePort + ((start + step) % span)
    if (await claimPort(port)) return port
  }
  throw new Error(`There is no free port between ${firstFreePort} and ${lastFreePort} on ${loopback}`)
}

export async function claimPort(port: number): Promise<boolean> {
  return (await serialize(async () => await claim(port))) && (await isPortFree(port))
}

let turn: Promise<unknown> = Promise.resolve()

/** Otherwise two claims could get a port while a third restores an abandoned one. */
async function serialize<T>(work: () => Promise<T>): Promise<T> {
  const done = turn.then(work)
  turn = done.catch(() => undefined)
  return await done
}

/** A claim is a lock file and ends with the process. */
const claims = join(tmpdir(), `postern-ports-${userInfo().uid}`)
const ours = new Set<string>()

async function claim(port: number): Promise<boolean> {
  await mkdir(claims, { recursive: true, mode: 0o700 })
  const path = join(claims, String(port))
  const { isOurs } = await tryLock(path)
  if (!isOurs) return false
  if (ours.size === 0) process.once('exit', () => ours.forEach((claimed) => rmSync(claimed, { force: true })))
  ours.add(path)
  return true
}

/** Throws `PortInUseError`. */
export async function assertPortFree(port: number, use: string, variable: string): Promise<void> {
  if (await isPortFree(port)) return
  throw new PortInUseError(port, use, variable)
}

export class PortInUseError extends Error {
  constructor(port: number, use: string, variable: string) {
    super(`port ${port} (${use}) is in use on ${loopback}: stop the other program, or set ${variable} to a free port`)
    this.name = 'PortInUseError'
  }
}
