import { mkdir, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { lockHome } from './home-lock.ts'
import { assertPortFree, claimPort, findFreePort, isPortFree, loopback } from './ports.ts'
import { startFailure } from './processes.ts'
import { type Demo, seed, seedTenants } from './seed.ts'
import type { Stack, StackPorts } from './stack.ts'
import { startStack } from './stack.ts'
import type { StartOptions } from './start-options.ts'
import { readStartOptions } from './start-options.ts'

const usualPorts = {
  postgres: 15_432,
  redis: 16_379,
  firstService: 8181,
  firstAdmin: 9080,
  console: 8090,
  consoleAdmin: 9090,
  signIn: 8190,
} as const

const abandonedTimeoutMs = 15_000

async function choosePorts(options: StartOptions, wasAbandoned: boolean): Promise<StackPorts> {
  const gateways = Array.from({ length: options.gateways }, (_, index) => options.port + index)
  for (const port of gateways) {
    if (wasAbandoned) await waitUntilFree(port)
    await assertPortFree(port, 'gateway', 'POSTERN_PORT')
  }
  const { consolePort } = options
  if (consolePort !== undefined) {
    if (wasAbandoned) await waitUntilFree(consolePort)
    await assertPortFree(consolePort, 'console', 'POSTERN_CONSOLE_PORT')
  }
  const named = [...gateways, consolePort]
  const prefer = async (port: number): Promise<number> =>
    !named.includes(port) && (await claimPort(port)) ? port : await findFreePort()
  const { firstService, firstAdmin } = usualPorts
  return {
    postgres: await prefer(usualPorts.postgres),
    redis: await prefer(usualPorts.redis),
    services: {
      keys: await prefer(firstService),
      findings: await prefer(firstService + 1),
      universe: await prefer(firstService + 2),
      evidence: await prefer(firstService + 3),
      sync: await prefer(firstService + 4),
    },
    gateways: await Promise.all(
      gateways.map(async (port, index) => ({ port, adminPort: await prefer(firstAdmin + index) })),
    ),
    console: {
      port: consolePort ?? (await prefer(usualPorts.console)),
      adminPort: await prefer(usualPorts.consoleAdmin),
      signInPort: hasOwnProvider(options) ? undefined : await prefer(usualPorts.signIn),
    },
  }
}

function hasOwnProvider({ env }: Pick<StartOptions, 'env'>): boolean {
  return ['POSTERN_OIDC_ISSUER', 'POSTERN_SIGN_IN', 'POSTERN_SIGN_IN_FILE'].some((name) => (env[name] ?? '') !== '')
}

async function waitUntilFree(port: number): Promise<void> {
  const deadline = performance.now() + abandonedTimeoutMs
  while (!(await isPortFree(port)) && performance.now() < deadline) await delay(100)
}

function listenForEnd(): AbortSignal {
  const controller = new AbortController()
  // Ctrl-C can arrive from the terminal and from npm.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => controller.abort())
  const fd = Number(process.env['POSTERN_PARENT_FD'])
  if (Number.isSafeInteger(fd) && fd > 2) {
    const parent = new Socket({ fd, readable: true, writable: false })
    parent.on('error', () => controller.abort())
    parent.on('close', () => controller.abort())
    parent.resume()
    parent.unref()
  }
  return controller.signal
}

/** For the command line and scripts, without secrets. */
async function writeStackFile(path: string, ports: StackPorts): Promise<void> {
  const content = {
    pid: process.pid,
    gateways: ports.gateways.map(({ port }) => urlOfPort(port)),
    console: ports.console === undefined ? null : urlOfPort(ports.console.port),
    services: Object.fromEntries(Object.entries(ports.services).map(([name, port]) => [name, urlOfPort(port)])),
  }
  await writeFile(path, `${JSON.stringify(content, undefined, 2)}\n`)
}

function urlOfPort(port: number): string {
  return `http://${loopback}:${port}`
}

async function runUntilEnd(stack: Stack, signal: AbortSignal): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<'asked'>()
  if (signal.aborted) resolve('asked')
  else signal.addEventListener('abort', () => resolve('asked'), { once: true })
  // Sockets do not keep the process alive.
  const alive = setInterval(() => undefined, 60_000)
  try {
    const end = await Promise.race([promise, stack.failed])
    if (end === 'asked') return 0
    const exit = await end.exited
    const failure = await startFailure(end, `ended unexpectedly (${exit.signal ?? `exit code ${exit.code}`})`)
    console.error(`postern: ${failure.message}\npostern: stopping everything`)
    return 1
  } finally {
    clearInterval(alive)
  }
}

const log = (line: string): void => console.error(`postern: ${line}`)

async function main(): Promise<number> {
  const options = readStartOptions(process.env)
  const { home } = options
  const signal = listenForEnd()
  await mkdir(home, { recursive: true, mode: 0o711 })
  const lock = await lockHome(home)
  const stackFile = join(home, 'stack.json')
  try {
    const ports = await choosePorts(options, lock.wasAbandoned)
    const stack = await startStack({
      home,
      ports,
      durable: true,
      env: options.env,
      signal,
      log,
      ...(hasOwnProvider(options) ? { beforeGateways: seedTenants } : {}),
    })
    try {
      await writeStackFile(stackFile, ports)
      const demo = await seed(home, stack, options.demoScale, log)
      if (!signal.aborted) announce(demo, stack.console?.url ?? '', hasOwnProvider(options))
      return await runUntilEnd(stack, signal)
    } finally {
      await stack.stop()
      await rm(stackFile, { force: true })
    }
  } catch (error) {
    if (signal.aborted) return 0
    throw error
  } finally {
    await lock.release()
  }
}

function announce({ gateways: [gateway = ''], tenants }: Demo, consoleUrl: string, isOwnProvider: boolean): void {
  const key = tenants['harbourline']?.keys['read:findings'] ?? ''
  console.log(`postern ready ${gateway}`)
  const how = isOwnProvider
    ? 'you sign in with the provider of your settings'
    : 'at its development sign-in you pick a person; not for production'
  console.log(`\nThe console: ${consoleUrl} (${how})`)
  console.log(`\nRead the findings of Harbourline Bank:\n`)
  console.log(`  curl -H 'Authorization: ApiKey ${key}' '${gateway}/api/v1/findings?limit=3'\n`)
  console.log(
    'All demo keys are in demo.json in the home folder; npm run -s postern -- --help manages tenants and keys.',
  )
  console.log('Ctrl-C stops everything; the data stays.')
}

function describe(error: unknown): string {
  const texts: string[] = []
  for (let cause = error; cause instanceof Error; cause = cause.cause) texts.push(cause.message)
  return texts.length === 0 ? String(error) : texts.join(': ')
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(`postern: ${describe(error)}`)
  process.exitCode = 1
}
