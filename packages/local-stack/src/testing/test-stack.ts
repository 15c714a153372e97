import { execFile } from 'node:child_process'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CreatedApiKey, Upstream } from '@postern/contracts'
import type { Tenant } from '@postern/contracts/internal'
import { ensurePrograms } from '../../programs.mjs'
import { buildConsolePages } from '../console-pages.ts'
import { type ConsolePorts, type ConsoleProcesses, signInVariables, startConsole } from '../console.ts'
import { compileCache } from '../paths.ts'
import { findFreePort } from '../ports.ts'
import type { ManagedProcess } from '../processes.ts'
import { openSecrets, signingRings, type RingName } from '../secrets.ts'
import { startServices, urlsOf, type Route, type ServiceProcessName } from '../services.ts'
import { createSignedCaller, type RequestSigner, type SignedCaller } from '../signed-caller.ts'
import { assertNoKeyIn } from './assert-no-key.ts'
import { findCluster, makeTestFolder } from './cluster.ts'
import { type CreateKeyInput, operatorActions } from './operator-actions.ts'
import { patience, servicePatience } from './patience.ts'
import { createTestDatabase, type TestDatabase } from './test-database.ts'
import { startTestRedis, type TestRedis } from './test-redis.ts'

export interface TestStackOptions {
  /** Gateway processes, default 1. */
  readonly gateways?: number
  /** Services with a second process, such as `findings-2`. `route` must lead to both. Default: none. */
  readonly twice?: readonly Upstream[]
  /** False leaves Redis stopped; `redis.start()` starts it. Default true. */
  readonly redis?: boolean
  /** True starts the console and the development provider too. Default false. */
  readonly console?: boolean
  /** Slugs of tenants that exist before the gateways start, because a sign-in file names them. */
  readonly tenants?: readonly string[]
  /** More members of the sign-in file, for the development provider. */
  readonly signIn?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
  /** Routes connections over a detour, such as a proxy that can fail. */
  readonly route?: Route
  /** Another working copy, whose services run on this one's schema. */
  readonly sources?: string
  /** The services that run from `sources`. Default: all. */
  readonly fromSources?: readonly (Upstream | 'gateway')[]
}

export interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** All services as processes, with their own database and Redis. */
export interface TestStack {
  readonly home: string
  readonly gateways: readonly string[]
  /** Empty without a console. */
  readonly consoleUrl: string
  /** Console and development provider. */
  readonly consoleProcesses: readonly ManagedProcess[]
  readonly database: TestDatabase
  readonly redis: TestRedis
  readonly serviceUrl: (name: Upstream) => string
  readonly process: (name: ServiceProcessName) => ManagedProcess
  /** Restarts a process on its port, with additional variables. */
  readonly restart: (name: ServiceProcessName, env?: Readonly<Record<string, string>>) => Promise<void>
  ring(name: RingName): string
  /** Calls a service like the gateway. */
  caller(name: Upstream): SignedCaller & RequestSigner
  /** Calls the keys service like the operator's command. */
  readonly operator: SignedCaller
  /** Those that the options name. */
  readonly tenants: readonly Tenant[]
  createTenant(slug?: string): Promise<Tenant>
  /** Sets the tenants of the development provider's people, by slug. */
  nameTenants(tenants: Readonly<Record<string, { readonly id: string }>>): Promise<void>
  createKey(tenant: { readonly id: string }, input: CreateKeyInput): Promise<CreatedApiKey>
  /** Runs the operator's command. */
  cli(...args: readonly string[]): Promise<CommandResult>
  logs(): Promise<string>
  stop(): Promise<void>
}

/** Starts a stack on free ports. It ends with this process at the latest. */
export async function startTestStack(options: TestStackOptions = {}): Promise<TestStack> {
  const { assertionKeys } = await findCluster()
  const home = await makeTestFolder('stack')
  const secrets = await openSecrets(home, { POSTERN_ASSERTION_KEYS: assertionKeys })
  const [database, redis] = await Promise.all([createTestDatabase(), startTestRedis()])
  if (options.redis === false) await redis.stop()
  const count = options.gateways ?? 1
  const consolePorts =
    options.console === true
      ? { port: await findFreePort(), adminPort: await findFreePort(), signInPort: await findFreePort() }
      : undefined
  const signIn = signInVariables(consolePorts, options.signIn)
  const env = { ...signIn, ...options.env }
  const servicePorts = {
    keys: await findFreePort(),
    findings: await findFreePort(),
    universe: await findFreePort(),
    evidence: await findFreePort(),
    sync: await findFreePort(),
  }
  const secondPorts: Partial<Record<Upstream, number>> = {}
  for (const name of options.twice ?? []) secondPorts[name] = await findFreePort()
  const caller = (keyName: string, ring: RingName, baseUrl: string): SignedCaller & RequestSigner =>
    createSignedCaller({ baseUrl, keyName, ring: secrets.rings[ring], assertionKeys })
  const [keysUrl, secondKeysUrl] = urlsOf('keys', { ports: servicePorts, secondPorts })
  const operatorsUrl = (await options.route?.('operator', 'keys', keysUrl, secondKeysUrl)) ?? keysUrl
  const asOperator = caller('operator', 'POSTERN_SIGNING_OPERATOR', operatorsUrl)
  const created: Tenant[] = []
  const createTenants = async (): Promise<void> => {
    for (const slug of options.tenants ?? []) created.push(await operatorActions(asOperator).createTenant(slug))
  }
  const services = await startServices({
    home,
    secrets,
    databaseUrl: database.url,
    redisUrls: redis.urls,
    ports: servicePorts,
    secondPorts,
    gateways: await Promise.all(
      Array.from({ length: count }, async () => ({ port: await findFreePort(), adminPort: await findFreePort() })),
    ),
    // Services fail a request whose response violates its contract.
    env: { POSTERN_CHECK_ANSWERS: 'on', ...servicePatience, ...env },
    route: options.route,
    sources: options.sources,
    fromSources: options.fromSources,
    beforeGateways: options.tenants === undefined ? undefined : createTenants,
  }).catch(async (error: unknown) => {
    await redis.stop()
    throw error
  })
  const startConsoleOf = async (ports: ConsolePorts | undefined): Promise<ConsoleProcesses | undefined> => {
    if (ports === undefined) return undefined
    await buildConsolePages()
    const [gatewayUrl = ''] = services.gateways
    const consoleEnv = { ...patience, ...signIn, ...options.env }
    return await startConsole({ home, secrets, ports, gatewayUrl, redisUrl: redis.urls.console, env: consoleEnv })
  }
  const consoleProcesses = await startConsoleOf(consolePorts).catch(async (error: unknown) => {
    await services.stop()
    await redis.stop()
    throw error
  })
  return {
    home,
    gateways: services.gateways,
    consoleUrl: consoleProcesses?.url ?? '',
    consoleProcesses: consoleProcesses?.processes ?? [],
    database,
    redis,
    serviceUrl: services.url,
    process: services.process,
    restart: services.restart,
    ring: (name) => secrets.rings[name],
    caller: (name) => caller(name, signingRings[name], services.url(name)),
    operator: asOperator,
    tenants: created,
    ...operatorActions(asOperator),
    nameTenants: async (tenants) => await writeFile(join(home, 'demo.json'), JSON.stringify({ tenants })),
    cli: async (...args) =>
      await runCommand(args, {
        PATH: '/usr/bin:/bin',
        NODE_COMPILE_CACHE: compileCache,
        POSTERN_KEYS_URL: services.url('keys'),
        POSTERN_SIGNING_OPERATOR_FILE: secrets.ringFile('POSTERN_SIGNING_OPERATOR'),
        POSTERN_ASSERTION_KEYS_FILE: secrets.ringFile('POSTERN_ASSERTION_KEYS'),
      }),
    logs: async () => {
      const folder = join(home, 'logs')
      const texts = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8')))
      return texts.join('\n')
    },
    stop: async () => {
      await consoleProcesses?.stop()
      await services.stop()
      await redis.stop()
      await database.drop()
      await assertNoKeyIn(join(home, 'logs'))
    },
  }
}

async function runCommand(args: readonly string[], env: Readonly<Record<string, string>>): Promise<CommandResult> {
  const { promise, resolve } = Promise.withResolvers<CommandResult>()
  execFile(
    process.execPath,
    [ensurePrograms().pathOf('postern'), ...args],
    { env, timeout: 60_000 },
    (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, stdout, stderr })
    },
  )
  return await promise
}
