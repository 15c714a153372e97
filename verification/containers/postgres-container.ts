import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSecrets, prepareDatabase, rolePasswords, roleUrl } from '@postern/installation'
import { GenericContainer, Wait } from 'testcontainers'
import { type Cluster, findFreePort } from '../../packages/local-stack/src/testing/index.ts'
import { findInstallation } from './installation.ts'

export async function setup(): Promise<() => Promise<void>> {
  const { images } = findInstallation().installation
  const home = await mkdtemp(join(tmpdir(), 'postern-test-'))
  await writeFile(join(home, 'pid'), String(process.pid))
  const secrets = await openSecrets(home)
  const password = secrets.passwords.superuser
  const port = await findFreePort()
  const settings = { fsync: 'off', max_connections: '400' }
  const server = await new GenericContainer(images.postgres)
    .withEnvironment({ POSTGRES_PASSWORD: password })
    .withCommand(['postgres', ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])])
    .withExposedPorts({ container: 5432, host: port })
    .withHealthCheck({
      // During its setup, PostgreSQL listens only on its socket.
      test: ['CMD', 'pg_isready', '--username=postgres', '--host=127.0.0.1'],
      interval: 1_000,
      timeout: 10_000,
      retries: 60,
      startPeriod: 1_000,
    })
    .withWaitStrategy(Wait.forHealthCheck())
    .withStartupTimeout(180_000)
    .start()
  const stop = async (): Promise<void> => {
    await server.stop({ timeout: 0 })
    await rm(home, { recursive: true, force: true })
  }
  try {
    const template = 'postern_template'
    const passwords = rolePasswords(secrets)
    const assertionKeys = secrets.rings.POSTERN_ASSERTION_KEYS
    const url = (database: string): string => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`
    const migratorUrl = roleUrl('migrator', passwords.migrator, `127.0.0.1:${port}`, template)
    await prepareDatabase({ database: template, superuser: { url, passwords }, migratorUrl, assertionKeys })
    const cluster: Cluster = {
      home,
      port,
      superuserPassword: password,
      template,
      passwords,
      assertionKeys,
      failures: [],
    }
    const file = join(home, 'cluster.json')
    await writeFile(file, JSON.stringify(cluster), { mode: 0o600 })
    process.env['POSTERN_TEST_CLUSTER'] = file
    return stop
  } catch (error) {
    await stop()
    throw error
  }
}
