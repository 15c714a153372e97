import { join } from 'node:path'
import { findFreePort, loopback } from '../ports.ts'
import { launch, waitUntilReady } from '../processes.ts'
import { type ServerName, findServer } from '../redis-program.ts'
import { answersPing } from '../redis.ts'
import { makeTestFolder, testInstallFolder } from './cluster.ts'

export { serverNames as redisServerNames } from '../redis-program.ts'

export interface InstalledRedis {
  readonly port: number
  stop(): Promise<void>
}

/** Starts a server with the installation's `redis.conf` and `users.acl`. Undefined if the program is missing. */
export async function startInstalledRedis(name: ServerName, folder: string): Promise<InstalledRedis | undefined> {
  const program = await findServer(name, testInstallFolder)
  if (program === undefined) return undefined
  const home = await makeTestFolder(name)
  const port = await findFreePort()
  // The paths in a container differ.
  const here = ['--aclfile', join(folder, 'users.acl'), '--port', String(port), '--bind', loopback, '--dir', home]
  const server = await launch({
    name,
    command: program.command,
    args: [join(folder, 'redis.conf'), ...here],
    env: program.env,
    cwd: '/',
    logFile: join(home, 'logs', `${name}.log`),
  })
  await waitUntilReady(server, async () => await answersPing(port))
  return { port, stop: async () => void (await server.stop()) }
}
