import { join } from 'node:path'
import { compileCache, repositoryRoot } from './paths.ts'
import { ensurePrograms } from '../programs.mjs'
import { loopback } from './ports.ts'
import type { ManagedProcess } from './processes.ts'
import { findListeningPort, launch, waitUntilReady } from './processes.ts'
import type { Secrets } from './secrets.ts'

export interface ConsolePorts {
  readonly port: number
  readonly adminPort: number
  readonly signInPort: number | undefined
}

export interface ConsoleProcesses {
  readonly url: string
  readonly processes: readonly ManagedProcess[]
  stop(): Promise<void>
  readonly failed: Promise<ManagedProcess>
}

export interface ConsoleOptions {
  readonly home: string
  readonly secrets: Secrets
  readonly ports: ConsolePorts
  readonly gatewayUrl: string
  readonly redisUrl: string
  readonly env?: Readonly<Record<string, string>>
}

const clientId = 'postern-console'

export function signInVariables(
  ports: ConsolePorts | undefined,
  more: Readonly<Record<string, unknown>> = {},
): Record<string, string> {
  if (ports?.signInPort === undefined) return {}
  const provider = {
    name: 'Development',
    issuer: origin(ports.signInPort),
    grants: { from: ['/postern_grants'] },
    ...more,
  }
  return { POSTERN_SIGN_IN: JSON.stringify({ providers: [provider] }) }
}

export async function startConsole(options: ConsoleOptions): Promise<ConsoleProcesses> {
  const { home, secrets, ports, gatewayUrl, redisUrl, env = {} } = options
  const url = origin(ports.port)
  const base = { PATH: '/usr/bin:/bin', TZ: 'UTC', NODE_COMPILE_CACHE: compileCache, POSTERN_HOST: loopback }
  const client = {
    POSTERN_CONSOLE_URL: env['POSTERN_CONSOLE_URL'] ?? url,
    // Only the development provider may receive it.
    ...(ports.signInPort === undefined ? {} : { POSTERN_OIDC_CLIENT_SECRET_FILE: secrets.oidcClientSecretFile }),
  }
  const processes: ManagedProcess[] = []
  const failed = Promise.withResolvers<ManagedProcess>()
  let stopping = false

  const start = async (name: 'console' | 'sign-in', variables: Readonly<Record<string, string>>): Promise<void> => {
    const process = await launch({
      name,
      command: globalThis.process.execPath,
      args: [ensurePrograms().pathOf(name)],
      env: variables,
      cwd: repositoryRoot,
      logFile: join(home, 'logs', `${name}.log`),
    })
    processes.push(process)
    await waitUntilReady(process, () => findListeningPort(process.logFile) !== undefined)
    void process.exited.then(() => stopping || failed.resolve(process))
  }

  const stop = async (): Promise<void> => {
    stopping = true
    await Promise.all(processes.map(async (process) => await process.stop()))
  }

  const consoleVariables: Record<string, string> = {
    ...base,
    ...client,
    ...signInVariables(ports),
    POSTERN_PORT: String(ports.port),
    POSTERN_ADMIN_PORT: String(ports.adminPort),
    POSTERN_GATEWAY_URL: gatewayUrl,
    POSTERN_REDIS_URL_FILE: await secrets.put('redis-url-console', redisUrl),
    POSTERN_CONSOLE_SESSION_FILE: secrets.ringFile('POSTERN_CONSOLE_SESSION'),
  }
  for (const [variable, value] of Object.entries(env)) {
    // Services reject a setting with both a value and a file.
    delete consoleVariables[`${variable}_FILE`]
    consoleVariables[variable] = value
  }
  const starts = [start('console', consoleVariables)]
  if (ports.signInPort !== undefined) {
    const variables = {
      POSTERN_PORT: String(ports.signInPort),
      POSTERN_OIDC_ISSUER: origin(ports.signInPort),
      POSTERN_OIDC_CLIENT_ID: clientId,
      POSTERN_DEMO_FILE: join(home, 'demo.json'),
    }
    starts.push(start('sign-in', { ...base, ...client, ...variables }))
  }
  for (const result of await Promise.allSettled(starts)) {
    if (result.status === 'fulfilled') continue
    await stop()
    throw result.reason
  }
  return { url, processes, stop, failed: failed.promise }
}

function origin(port: number): string {
  return `http://${loopback}:${port}`
}
