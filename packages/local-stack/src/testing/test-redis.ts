import { findFreePort } from '../ports.ts'
import { startRedis } from '../redis.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder, testInstallFolder } from './cluster.ts'

/** A Redis of its own for a test file. */
export interface TestRedis {
  readonly url: string
  readonly port: number
  /** SIGSTOP and SIGCONT freeze and thaw it, SIGKILL ends it. */
  kill(signal: NodeJS.Signals): void
  /** Ends it in order. Does nothing when it has ended. */
  stop(): Promise<void>
  /** Starts it again on the same port, empty. */
  start(): Promise<void>
}

/** Starts a Redis on a free port. It ends with the process that started it, at the latest. */
export async function startTestRedis(): Promise<TestRedis> {
  const home = await makeTestFolder('redis')
  const password = randomPassword()
  const port = await findFreePort()
  const launch = async () => await startRedis({ home, port, password, installFolder: testInstallFolder })
  let server = await launch()
  return {
    url: server.url,
    port,
    kill: (signal) => server.kill(signal),
    stop: async () => {
      await server.stop()
    },
    start: async () => {
      await server.stop()
      server = await launch()
    },
  }
}
