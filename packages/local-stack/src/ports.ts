import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { tryLink } from './home-lock.ts'
import { isAlive } from './processes.ts'

/** Everything in the stack listens on the loopback address only. */
export const loopback = '127.0.0.1'

// Below 32768: Linux hands out the numbers above it to outgoing connections, which may hold one when we want it.
const firstFreePort = 20_000
const lastFreePort = 31_999

/** Whether nothing listens on the port of the loopback address. */
export async function isPortFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const probe = createServer()
  probe.once('error', () => resolve(false))
  probe.listen({ host: loopback, port, exclusive: true }, () => probe.close(() => resolve(true)))
  return await promise
}

/**
 * A port that is free now and that no process of Postern on this machine, this one included, has been given and may be
 * about to use. Each process begins its search far from where its neighbours do, so that those which run side by side seldom meet.
 */
export async function findFreePort(): Promise<number> {
  const span = lastFreePort - firstFreePort + 1
  const start = (process.pid * 7919) % span
  for (let step = 0; step < span; step += 1) {
    const port = firstFreePort + ((start + step) % span)
    if (await claimPort(port)) return port
  }
  throw new Error(`no free port between ${firstFreePort} and ${lastFreePort} on ${loopback}`)
}

/** Takes a port for this process, if nothing listens there and no other process of Postern that lives has taken it. */
export async function claimPort(port: number): Promise<boolean> {
  return (await inTurn(async () => await claim(port))) && (await isPortFree(port))
}

let turn: Promise<unknown> = Promise.resolve()

/**
 * One claim of this process after the other. Its searches go the same way: while one that came late for an abandoned claim puts
 * back what it has moved, the port would look free to a third, and two would have it.
 */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const done = turn.then(work)
  turn = done.catch(() => undefined)
  return await done
}

/** Claims are files with the number of their process; a claim ends with its process. */
const claims = join(tmpdir(), `postern-ports-${userInfo().uid}`)
const ours = new Set<string>()

async function claim(port: number): Promise<boolean> {
  await mkdir(claims, { recursive: true, mode: 0o700 })
  const path = join(claims, String(port))
  const mine = `${path}.${process.pid}.${randomUUID()}`
  await writeFile(mine, String(process.pid))
  try {
    if (!(await tryLink(mine, path)) && !((await setAsideIfAbandoned(path)) && (await tryLink(mine, path))))
      return false
  } finally {
    await rm(mine, { force: true })
  }
  if (ours.size === 0) process.once('exit', () => ours.forEach((claimed) => rmSync(claimed, { force: true })))
  ours.add(path)
  return true
}

/** Takes the claim of a process that is gone out of the way. */
async function setAsideIfAbandoned(path: string): Promise<boolean> {
  if (await isHeld(path)) return false
  const aside = `${path}.${process.pid}.${randomUUID()}.old`
  try {
    await rename(path, aside)
  } catch {
    // Another process was faster; the link says whose the port is.
    return true
  }
  // Between the look and the move a live process may have made its claim: it gets it back.
  if (await isHeld(aside)) await tryLink(aside, path)
  await rm(aside, { force: true })
  return true
}

async function isHeld(path: string): Promise<boolean> {
  const holder = Number(await readFile(path, 'utf8').catch(() => ''))
  return holder !== 0 && isAlive(holder)
}

/** Fails with one line that names the port and the variable to change, when something else listens there. */
export async function assertPortFree(port: number, use: string, variable: string): Promise<void> {
  if (await isPortFree(port)) return
  throw new PortInUse(port, use, variable)
}

/** A port that the stack needs is taken by another program. */
export class PortInUse extends Error {
  constructor(port: number, use: string, variable: string) {
    super(`port ${port} (${use}) is in use on ${loopback}: stop the other program, or set ${variable} to a free port`)
    this.name = 'PortInUse'
  }
}
