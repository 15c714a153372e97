// Stands in for @postern/local-stack/testing where tests run on containers: the stack is the installation of this run, and
// Redis is a container.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createdApiKeySchema, type CreatedApiKey } from '@postern/contracts'
import { type Tenant, tenantSchema } from '@postern/contracts/internal'
import type { CreateKeyInput, TestRedis } from '../../packages/local-stack/src/testing/index.ts'
import { findFreePort, randomRing } from '../../packages/local-stack/src/testing/index.ts'
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers'
import { findInstallation } from './installation.ts'

export * from '../../packages/local-stack/src/testing/index.ts'

/** What of a test stack there is here: what needs a process of its own, or a variable, is not. */
export interface ContainerStack {
  readonly gateways: readonly string[]
  createTenant(slug?: string): Promise<Tenant>
  createKey(tenant: { readonly id: string }, input: CreateKeyInput): Promise<CreatedApiKey>
  stop(): Promise<void>
}

/** The installation of this run, in the shape of a test stack. */
export async function startTestStack(): Promise<ContainerStack> {
  const { installation, operator } = findInstallation()
  return {
    gateways: installation.gateways.map(({ url }) => url),
    createTenant: async (slug = `tenant-${randomBytes(6).toString('hex')}`) =>
      tenantSchema.parse(JSON.parse(await operator('tenants', 'create', slug, '--name', `Test ${slug}`, '--json'))),
    createKey: async (tenant, { scopes, label = 'A test key', expiresAt = '30d', allowedAddresses }) => {
      const options = ['--tenant', tenant.id, '--label', label, '--expires', expiresAt]
      if (allowedAddresses !== undefined) options.push('--address', ...allowedAddresses)
      const text = await operator('keys', 'create', ...options, '--json', '--scope', ...scopes)
      return createdApiKeySchema.parse(JSON.parse(text))
    },
    stop: async () => undefined,
  }
}

/** A Redis in a container, on a port that stays the same over restarts. */
export async function startTestRedis(): Promise<TestRedis> {
  const { images } = findInstallation().installation
  const port = await findFreePort()
  const password = randomRing().split(':')[1] ?? ''
  const launch = async (): Promise<StartedTestContainer> =>
    await new GenericContainer(images.redis)
      .withExposedPorts({ container: 6379, host: port })
      .withCommand(['redis-server', '--requirepass', password, '--save', '', '--appendonly', 'no'])
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
    url: `redis://:${password}@127.0.0.1:${port}`,
    port,
    kill: (signal) => {
      // As a signal to a process is: in force when this returns.
      if (server !== undefined) spawnSync('docker', ['kill', '--signal', signal, server.getId()], { env })
    },
    stop,
    start: async () => {
      await stop()
      server = await launch()
    },
  }
}
