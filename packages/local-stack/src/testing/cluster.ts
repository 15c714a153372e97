import { mkdir, mkdtemp, readFile, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { prepareDatabase, rolePasswords } from '@postern/installation'
import { Client } from 'pg'
import { roleUrl } from '../database.ts'
import { repositoryRoot } from '../paths.ts'
import { findFreePort } from '../ports.ts'
import { isAlive } from '../processes.ts'
import { type Postgres, type PostgresOptions, startPostgres } from '../postgres.ts'
import { assertNoKeyIn } from './assert-no-key.ts'
import { openSecrets } from '../secrets.ts'
import { primarySettings, startStandby } from './standby.ts'

/** The variable with the path of the file that describes the cluster. */
export const clusterVariable = 'POSTERN_TEST_CLUSTER'

/** Where Redis is unpacked if the machine has none. Kept between runs. */
export const testInstallFolder: string = join(repositoryRoot, '.tools', 'redis-package')

/** The PostgreSQL that all tests of a run share. Each test creates its own database. */
export interface Cluster {
  /** Removed at the end. */
  readonly home: string
  readonly port: number
  /** Port of the synchronous standby, if there is one. */
  readonly standbyPort?: number
  readonly superuserPassword: string
  readonly template: string
  readonly passwords: ReturnType<typeof rolePasswords>
  readonly assertionKeys: string
  /** Schemas that could not be created, with the reasons. Only tests that need them fail. */
  readonly failures: readonly string[]
}

const homePrefix = 'postern-test-'

/** The server process, for fault tests. */
export interface TestPostgres {
  kill(signal: NodeJS.Signals): Promise<void>
  /** Waits for the end of a killed server. */
  stop(): Promise<void>
  /** Stops the server if it runs, and starts it with the same port and data and additional variables. */
  restart(env?: Readonly<Record<string, string>>): Promise<void>
}

export interface RunningCluster {
  readonly cluster: Cluster
  readonly postgres: TestPostgres
  readonly promote: () => Promise<void>
  readonly stop: () => Promise<void>
}

/**
 * Starts PostgreSQL with a template database that has all migrations, and sets `clusterVariable`. Data survives a crash
 * only if `durable`.
 */
export async function startTestCluster({ durable = false, standby = false } = {}): Promise<RunningCluster> {
  await removeAbandoned()
  const before = process.env[clusterVariable]
  const home = await mkdtemp(join(tmpdir(), homePrefix))
  await writeFile(join(home, 'pid'), String(process.pid))
  const secrets = await openSecrets(home)
  const { superuser } = secrets.passwords
  const port = await findFreePort()
  const standbyPort = standby ? await findFreePort() : undefined
  const common = { password: superuser, maxConnections: 400 }
  let settings: NonNullable<PostgresOptions['settings']> = {}
  const launch = async (env: Readonly<Record<string, string>> = {}) =>
    await startPostgres({ ...common, home, port, durable, env, settings })
  let postgres = await launch()
  let follower: Postgres | undefined
  const stop = async (): Promise<void> => {
    // A cluster inside a test restores the variable of the run.
    if (before === undefined) delete process.env[clusterVariable]
    else process.env[clusterVariable] = before
    await postgres.stop()
    await follower?.stop()
    try {
      await assertNoKeyIn(home)
    } finally {
      await rm(postgres.folder, { recursive: true, force: true })
      if (follower !== undefined) await rm(follower.folder, { recursive: true, force: true })
      await rm(home, { recursive: true, force: true })
    }
  }
  try {
    const template = 'postern_template'
    const passwords = rolePasswords(secrets)
    const assertionKeys = secrets.rings.POSTERN_ASSERTION_KEYS
    const failures: string[] = []
    await prepareDatabase({
      database: template,
      superuser: { url: postgres.superuserUrl, passwords },
      migratorUrl: roleUrl('migrator', passwords.migrator, port, template),
      assertionKeys,
      onFailure: (schema, error) => failures.push(`schema ${schema}: ${explain(error)}`),
    })
    if (standbyPort !== undefined) {
      await postgres.stop()
      follower = await startStandby(postgres, { ...common, home: join(home, 'standby'), port: standbyPort })
      settings = primarySettings
      postgres = await launch()
    }
    const cluster: Cluster = {
      home,
      port,
      ...(standbyPort === undefined ? {} : { standbyPort }),
      superuserPassword: superuser,
      template,
      passwords,
      assertionKeys,
      failures,
    }
    const file = join(home, 'cluster.json')
    await writeFile(file, JSON.stringify(cluster), { mode: 0o600 })
    process.env[clusterVariable] = file
    return {
      cluster,
      postgres: {
        kill: async (signal) => await signalAll(postgres.pid, signal),
        stop: async () => void (await postgres.stop()),
        restart: async (env) => {
          await postgres.stop()
          postgres = await launch(env)
        },
      },
      promote: async () => {
        if (follower === undefined) throw new Error('This cluster has no standby.')
        const client = new Client({ connectionString: follower.superuserUrl('postgres') })
        await client.connect()
        try {
          await client.query('select pg_promote(true, 300)')
        } finally {
          await client.end()
        }
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Sessions have their own process groups. Linux only. */
async function signalAll(server: number, signal: NodeJS.Signals): Promise<void> {
  const sessions = await readFile(`/proc/${server}/task/${server}/children`, 'utf8')
  for (const pid of [server, ...sessions.trim().split(' ').map(Number)]) {
    try {
      if (pid > 0) process.kill(pid, signal)
    } catch {}
  }
}

async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(homePrefix)) continue
    const home = join(tmpdir(), name)
    const pid = Number(await readFile(join(home, 'pid'), 'utf8').catch(() => ''))
    if (pid === 0 || isAlive(pid)) continue
    const folder = await realpath(join(home, 'postgres')).catch(() => undefined)
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
    await rm(home, { recursive: true, force: true })
  }
}

function explain(error: unknown): string {
  const texts: string[] = []
  for (let cause = error; cause instanceof Error; cause = cause.cause) texts.push(cause.message)
  return texts.join(': ')
}

/** The cluster of this run. Fails outside a run. */
export async function findCluster(): Promise<Cluster> {
  const file = process.env[clusterVariable]
  if (file === undefined)
    throw new Error('There is no test PostgreSQL. Run this under vitest, or call startTestCluster first.')
  const cluster: Cluster = JSON.parse(await readFile(file, 'utf8'))
  return cluster
}

/** A new folder below the cluster's home. */
export async function makeTestFolder(prefix: string): Promise<string> {
  const { home } = await findCluster()
  await mkdir(join(home, 'work'), { recursive: true })
  return await mkdtemp(join(home, 'work', `${prefix}-`))
}
