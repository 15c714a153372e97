import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { tryLink } from './home-lock.ts'
import { isAlive } from './processes.ts'

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

/** A claim is a file with a process id and ends with the process. */
const claims = join(tmpdir(), `postern-ports-${userInfo().uid}`)
const ours = new Set<string>()

async function claim(port: number): Promise<boolean> {
  await mkdir(claims, { recursive: true, mode: 0o700 })
  const path = join(claims, String(port))
  const mine = `${path}.${process.pid}.${randomUUID()}`
  await writeFile(mine, String(process.pid))
  try {
    if (!(await tryLink(mine, path)) && !((await removeIfAbandoned(path)) && (await tryLink(mine, path)))) return false
  } finally {
    await rm(mine, { force: true })
  }
  if (ours.size === 0) process.once('exit', () => ours.forEach((claimed) => rmSync(claimed, { force: true })))
  ours.add(path)
  return true
}

async function removeIfAbandoned(path: string): Promise<boolean> {
  if (await isHeld(path)) return false
  const movedPath = `${path}.${process.pid}.${randomUUID()}.old`
  try {
    await rename(path, movedPath)
  } catch {
    return true
  }
  // A live process may have claimed the port before the move.
  if (await isHeld(movedPath)) await tryLink(movedPath, path)
  await rm(movedPath, { force: true })
  return true
}

async function isHeld(path: string): Promise<boolean> {
  const holder = Number(await readFile(path, 'utf8').catch(() => ''))
  return holder !== 0 && isAlive(holder)
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
