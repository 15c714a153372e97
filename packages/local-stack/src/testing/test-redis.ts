import type { RedisClientName, RedisPasswords } from '@postern/installation'
import { findFreePort } from '../ports.ts'
import { startRedis } from '../redis.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder, testInstallFolder } from './cluster.ts'

/** A Redis for one test file. */
export interface TestRedis {
  readonly url: string
  /** URLs of the components, with the rights of an installation. */
  readonly urls: Readonly<Record<RedisClientName, string>>
  readonly port: number
  kill(signal: NodeJS.Signals): void
  stop(): Promise<void>
  /** Starts it again on the same port, empty. */
  start(): Promise<void>
}

/** Starts a Redis on a free port. It ends with this process at the latest. */
export async function startTestRedis(): Promise<TestRedis> {
  const home = await makeTestFolder('redis')
  const passwords = randomRedisPasswords()
  const port = await findFreePort()
  const launch = async () => await startRedis({ home, port, passwords, installFolder: testInstallFolder })
  let server = await launch()
  return {
    url: server.url,
    urls: server.urls,
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

export function randomRedisPasswords(): RedisPasswords {
  return { keys: randomPassword(), gateway: randomPassword(), console: randomPassword(), admin: randomPassword() }
}
