// Replaces @postern/local-stack/testing in container tests.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { lookup } from 'node:dns'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { LookupFunction } from 'node:net'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { createdApiKeySchema, type CreatedApiKey } from '@postern/contracts'
import { type Tenant, tenantSchema } from '@postern/contracts/internal'
import { type RedisLogin, formatRedisUsers, randomPassword, redisUserName } from '@postern/installation'
import type { CreateKeyInput, SignedCaller, TestRedis } from '../../packages/local-stack/src/testing/index.ts'
import { findFreePort } from '../../packages/local-stack/src/testing/index.ts'
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers'
import { Agent, setGlobalDispatcher } from 'undici'
import type { Installation } from './compose.ts'
import { openDrillStack } from './drill-stack.ts'
import { findInstallation } from './installation.ts'

export * from '../../packages/local-stack/src/testing/index.ts'

export interface ContainerStack {
  readonly gateways: readonly string[]
  readonly consoleUrl: string
  readonly operator: SignedCaller
  createTenant(slug?: string): Promise<Tenant>
  nameTenants(tenants: Readonly<Record<string, { readonly id: string }>>): Promise<void>
  createKey(tenant: { readonly id: string }, input: CreateKeyInput): Promise<CreatedApiKey>
  /** All processes of the service. Killed ones are not restarted. */
  process(name: 'evidence'): { kill(signal: NodeJS.Signals): void }
  restart(name: 'gateway-2' | 'evidence'): Promise<void>
  stop(): Promise<void>
}

export async function startTestStack(): Promise<ContainerStack> {
  const system = findInstallation()
  const { installation, operator } = system
  reachProvider(installation)
  const drills = await openDrillStack(system)
  const evidence = await system.containers('evidence')
  return {
    gateways: installation.gateways.map(({ url }) => url),
    consoleUrl: installation.consoleUrl,
    operator: drills.operator,
    createTenant: async (slug = `tenant-${randomBytes(6).toString('hex')}`) =>
      tenantSchema.parse(JSON.parse(await operator('tenants', 'create', slug, '--name', `Test ${slug}`, '--json'))),
    nameTenants: async (tenants) => await writeFile(join(installation.trust, 'tenants.json'), JSON.stringify(tenants)),
    createKey: async (tenant, { scopes, label = 'A test key', expiresAt = '30d', allowedAddresses }) => {
      const options = ['--tenant', tenant.id, '--label', label, '--expires', expiresAt]
      if (allowedAddresses !== undefined) options.push('--address', ...allowedAddresses)
      const text = await operator('keys', 'create', ...options, '--json', '--scope', ...scopes)
      return createdApiKeySchema.parse(JSON.parse(text))
    },
    process: () => ({
      // Effective when this returns.
      kill: (signal) =>
        void spawnSync('docker', ['kill', '--signal', signal, ...evidence], {
          env: { ...process.env, ...installation.engine.env },
        }),
    }),
    restart: async (name) => {
      const containers = name === 'evidence' ? evidence : await system.containers('gateway-b')
      await system.docker(['restart', '--time', '40', ...containers], { timeoutMs: 300_000 })
      for (const container of containers) await system.waitUntilReady(container)
    },
    stop: async () => await drills.stop(),
  }
}

/** The provider's name must lead to its published port. */
function reachProvider({ issuer, trust }: Installation): void {
  const { hostname } = new URL(issuer)
  const ca = [...rootCertificates, readFileSync(join(trust, 'ca.crt'), 'utf8')]
  const find: LookupFunction = (name, options, found) => lookup(name === hostname ? '127.0.0.1' : name, options, found)
  setGlobalDispatcher(new Agent({ connect: { ca, lookup: find } }))
}

export async function startTestRedis(): Promise<TestRedis> {
  const { images } = findInstallation().installation
  const port = await findFreePort()
  const passwords = {
    keys: randomPassword(),
    gateway: randomPassword(),
    console: randomPassword(),
    admin: randomPassword(),
  }
  const users = formatRedisUsers(passwords).flatMap((line) => ['--user', ...line.split(' ').slice(1)])
  const urlOf = (login: RedisLogin): string => `redis://${redisUserName(login)}:${passwords[login]}@127.0.0.1:${port}`
  const launch = async (): Promise<StartedTestContainer> =>
    await new GenericContainer(images.redis)
      .withExposedPorts({ container: 6379, host: port })
      .withCommand(['redis-server', ...users, '--save', '', '--appendonly', 'no'])
      .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
      .start()
  let server: StartedTestContainer | undefined = await launch()
  const env = { ...process.env, ...findInstallation().installation.engine.env }
  const stop = async (): Promise<void> => {
    const running = server
    server = undefined
    await running?.stop({ timeout: 0 }).catch(() => undefined)
  }
  return {
    url: urlOf('admin'),
    urls: { keys: urlOf('keys'), gateway: urlOf('gateway'), console: urlOf('console') },
    port,
    kill: (signal) => {
      // Effective when this returns.
      if (server !== undefined) spawnSync('docker', ['kill', '--signal', signal, server.getId()], { env })
    },
    stop,
    start: async () => {
      await stop()
      server = await launch()
    },
  }
}
