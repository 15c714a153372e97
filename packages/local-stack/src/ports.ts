import { createServer } from 'node:net'

/** Everything in the stack listens on the loopback address only. */
export const loopback = '127.0.0.1'

// Below 32768: Linux hands out the numbers above it to outgoing connections, which may hold one when we want it.
const firstFreePort = 20_000
const lastFreePort = 31_999

const handedOut = new Set<number>()

/** Whether nothing listens on the port of the loopback address. */
export async function isPortFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const probe = createServer()
  probe.once('error', () => resolve(false))
  probe.listen({ host: loopback, port, exclusive: true }, () => probe.close(() => resolve(true)))
  return await promise
}

/**
 * A port that is free now and that this process has not handed out before. Each process begins its search elsewhere, so
 * that test workers which run side by side do not try the same numbers at the same moment.
 */
export async function findFreePort(): Promise<number> {
  const span = lastFreePort - firstFreePort + 1
  const start = (process.pid * 37) % span
  for (let step = 0; step < span; step += 1) {
    const port = firstFreePort + ((start + step) % span)
    if (handedOut.has(port)) continue
    handedOut.add(port)
    if (await isPortFree(port)) return port
  }
  throw new Error(`no free port between ${firstFreePort} and ${lastFreePort} on ${loopback}`)
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
