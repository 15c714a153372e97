import { join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import { prepareDatabase, redisPasswords, rolePasswords } from '@postern/installation'
import { buildConsolePages } from './console-pages.ts'
import { type ConsolePorts, type ConsoleProcesses, signInVariables, startConsole } from './console.ts'
import { roleUrl } from './database.ts'
import { loopback } from './ports.ts'
import type { Postgres } from './postgres.ts'
import { startPostgres } from './postgres.ts'
import type { ManagedProcess } from './processes.ts'
import type { Redis } from './redis.ts'
import { startRedis } from './redis.ts'
import type { Secrets } from './secrets.ts'
import { openSecrets } from './secrets.ts'
import type { Services } from './services.ts'
import { startServices } from './services.ts'

export interface StackPorts {
  readonly postgres: number
  readonly redis: number
  readonly services: Readonly<Record<Upstream, number>>
  readonly gateways: readonly { readonly port: number; readonly adminPort: number }[]
  readonly console?: ConsolePorts
}

export interface StackOptions {
  readonly home: string
  readonly ports: StackPorts
  readonly durable: boolean
  readonly env?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Gateways then start after the services. */
  readonly beforeGateways?: (keysUrl: string, secrets: Secrets) => Promise<void>
  readonly log: (line: string) => void
}

export interface Stack {
  readonly secrets: Secrets
  readonly services: Services
  /** The service's own role; a secret. */
  readonly databaseUrl: (service: Upstream) => string
  readonly console: ConsoleProcesses | undefined
  readonly failed: Promise<ManagedProcess>
  stop(): Promise<void>
}

const database = 'postern'

export async function startStack(options: StackOptions): Promise<Stack> {
  const { home, ports, signal, beforeGateways } = options
  const secrets = await openSecrets(home)
  const started: { stop(): Promise<unknown> }[] = []
  const stop = async (): Promise<void> => {
    for (const part of started.splice(0).toReversed()) await part.stop()
  }
  try {
    const pages = ports.console === undefined ? undefined : buildConsolePages(options.log)
    pages?.catch(() => undefined)
    const [postgres, redis] = await startServers(options, secrets, started)
    signal?.throwIfAborted()
    const passwords = rolePasswords(secrets)
    await prepareDatabase({
      database,
      superuser: { url: postgres.superuserUrl, passwords },
      migratorUrl: roleUrl('migrator', passwords.migrator, ports.postgres, database),
      assertionKeys: secrets.rings.POSTERN_ASSERTION_KEYS,
    })
    const databaseUrl = (service: Upstream): string => roleUrl(service, passwords[service], ports.postgres, database)
    const env = { ...signInVariables(ports.console), ...options.env }
    await pages
    const starting = [
      startServices({
        home,
        secrets,
        databaseUrl,
        redisUrls: redis.urls,
        ports: ports.services,
        gateways: ports.gateways,
        env,
        beforeGateways:
          beforeGateways === undefined ? undefined : async (keysUrl) => await beforeGateways(keysUrl, secrets),
        ...(signal === undefined ? {} : { signal }),
      }),
      ports.console === undefined
        ? Promise.resolve(undefined)
        : startConsole({
            home,
            secrets,
            ports: ports.console,
            gatewayUrl: `http://${loopback}:${ports.gateways[0]?.port ?? 0}`,
            redisUrl: redis.urls.console,
            env: options.env ?? {},
          }),
    ] as const
    for (const result of await Promise.allSettled(starting)) {
      if (result.status === 'fulfilled' && result.value !== undefined) started.push(result.value)
    }
    const [services, consoleProcesses] = await Promise.all(starting)
    signal?.throwIfAborted()
    return {
      secrets,
      services,
      databaseUrl,
      console: consoleProcesses,
      failed: Promise.race([
        services.failed,
        whenExited(postgres),
        whenExited(redis),
        ...(consoleProcesses === undefined ? [] : [consoleProcesses.failed]),
      ]),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startServers(
  { home, ports, durable, log }: StackOptions,
  secrets: Secrets,
  started: { stop(): Promise<unknown> }[],
): Promise<[Postgres, Redis]> {
  const installFolder = join(home, 'redis-package')
  const starting = [
    startPostgres({ home, port: ports.postgres, password: secrets.passwords.superuser, durable, log }),
    startRedis({
      home,
      port: ports.redis,
      passwords: redisPasswords(secrets),
      installFolder,
      log,
    }),
  ] as const
  for (const result of await Promise.allSettled(starting)) {
    if (result.status === 'fulfilled') started.push(result.value)
  }
  return await Promise.all(starting)
}

async function whenExited(server: ManagedProcess): Promise<ManagedProcess> {
  await server.exited
  return server
}
