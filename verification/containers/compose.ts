import { generateKeyPairSync } from 'node:crypto'
import { chmod, chown, cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { initSecrets } from '@postern/installation'
import { findFreePort, makeTestAuthority } from '@postern/local-stack/testing'
import { parse } from 'yaml'
import { z } from 'zod'
import { type Engine, type RunOptions, engineOf, run } from './engine.ts'
import type { Images } from './images.ts'

const root = join(import.meta.dirname, '..', '..')
const composeFile = join(root, 'deploy', 'compose.yaml')
const tlsFile = join(root, 'deploy', 'compose.tls.yaml')

export const doubled = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

export interface Installation {
  readonly engine: Pick<Engine, 'env' | 'compose' | 'own'>
  readonly images: Images
  readonly home: string
  readonly gateways: readonly { readonly name: string; readonly url: string; readonly readyUrl: string }[]
  readonly consoleUrl: string
  /** Over TLS under a name that only containers resolve. This machine reaches its port too. */
  readonly issuer: string
  readonly trust: string
  readonly secrets: string
  readonly project: string
}

const uid = process.getuid?.() === 0 ? 10001 : (process.getuid?.() ?? 10001)
const gid = process.getuid?.() === 0 ? 10001 : (process.getgid?.() ?? 10001)

export interface Compose {
  readonly installation: Installation
  compose(args: readonly string[], timeoutMs?: number): Promise<string>
  docker(args: readonly string[], options?: RunOptions): Promise<string>
  readonly operatorContainer: string
  /** Returns container ids in order. */
  containers(service: string): Promise<readonly string[]>
  operator(...args: readonly string[]): Promise<string>
  waitUntilReady(container: string): Promise<void>
  handOutSecrets(): Promise<void>
  logs(): Promise<string>
  down(): Promise<void>
}

export async function composeUp(engine: Engine, images: Images): Promise<Compose> {
  const home = await mkdtemp(join(tmpdir(), 'postern-compose-'))
  const ports = new Set<number>()
  while (ports.size < 6) ports.add(await findFreePort())
  const [first = 0, second = 0, firstAdmin = 0, secondAdmin = 0, consolePort = 0, signInPort = 0] = ports
  const trust = join(home, 'trust')
  await makeTrust(
    trust,
    Number(await engine.docker(['run', '--rm', '--entrypoint', 'id', images.postgres, '-u', 'postgres'])),
  )
  const installation: Installation = {
    engine: { env: engine.env, compose: engine.compose, own: engine.own },
    images,
    home,
    project: `postern${process.pid}`,
    secrets: join(home, 'secrets'),
    consoleUrl: `http://localhost:${consolePort}`,
    issuer: `https://${signInName}:${signInPort}`,
    trust,
    gateways: [
      { name: 'gateway', url: `http://127.0.0.1:${first}`, readyUrl: readyAt(firstAdmin) },
      { name: 'gateway-b', url: `http://127.0.0.1:${second}`, readyUrl: readyAt(secondAdmin) },
    ],
  }
  const compose = attach(installation)
  const overlay = await overlayFor(installation, second, firstAdmin, secondAdmin)
  await writeFile(join(home, 'overlay.json'), JSON.stringify(overlay))
  try {
    await compose.handOutSecrets()
    await cp(join(installation.secrets, 'oidc-client-secret'), join(trust, 'client-secret'))
    const scale = doubled.flatMap((name) => ['--scale', `${name}=2`])
    await compose.compose(['up', '--detach', '--no-build', ...scale], 600_000)
    // Starting a container per command takes a second.
    const idle = ['--entrypoint', 'node', 'operator', '-e', 'setInterval(()=>{},1e9)']
    await compose.compose(['run', '--detach', '--no-deps', '--name', operatorOf(installation.project), ...idle])
    for (const name of [...installation.gateways.map((gateway) => gateway.name), 'console']) {
      for (const container of await compose.containers(name)) await compose.waitUntilReady(container)
    }
    return compose
  } catch (error) {
    process.stderr.write(`${await compose.logs()}\n`)
    const why = await listUnhealthy(compose).catch(String)
    await compose.down()
    throw new Error(`the installation did not come up\n${why}`, { cause: error })
  }
}

async function listUnhealthy({ docker, installation: { project } }: Compose): Promise<string> {
  const filters = [`label=com.docker.compose.project=${project}`, 'health=unhealthy'].flatMap((each) => [
    '--filter',
    each,
  ])
  const ids = (await docker(['ps', '--all', '--quiet', ...filters])).split('\n').filter((id) => id !== '')
  const format = '{{.Name}}{{range .State.Health.Log}}\n  {{.ExitCode}} {{.Output}}{{end}}'
  const told = await Promise.all(ids.map(async (id) => await docker(['inspect', '--format', format, id])))
  return told.length === 0 ? 'no container is unhealthy' : told.map((each) => `unhealthy: ${each}`).join('\n')
}

const operatorOf = (project: string): string => `${project}-operator`

const readyAt = (port: number): string => `http://127.0.0.1:${port}/internal/health/ready`

const signInName = 'sign-in.example'

async function makeTrust(folder: string, postgresUid: number): Promise<void> {
  await mkdir(folder, { mode: 0o755 })
  const authority = await makeTestAuthority(folder)
  await authority.issue(signInName)
  for (const name of ['postgres', 'pgbouncer', 'redis']) {
    const { certificate, key } = await authority.issue(name)
    const own = join(folder, name)
    await mkdir(own, { mode: 0o755 })
    const owner = name === 'postgres' ? postgresUid : uid
    for (const [from, to] of [
      [certificate, 'server.crt'],
      [key, 'server.key'],
    ] as const) {
      await cp(from, join(own, to))
      await chmod(join(own, to), 0o600)
      if (process.getuid?.() === 0) await chown(join(own, to), owner, owner)
    }
  }
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await writeFile(join(folder, 'tokens.key'), privateKey.export({ format: 'pem', type: 'pkcs8' }))
  await writeFile(join(folder, 'tenants.json'), '{}')
}

async function overlayFor(
  { images, issuer, trust, consoleUrl }: Installation,
  port: number,
  firstAdmin: number,
  secondAdmin: number,
): Promise<unknown> {
  const { services } = z
    .looseObject({ services: z.looseObject({ gateway: z.looseObject({ ports: z.array(z.string()) }) }) })
    .parse(parse(await readFile(composeFile, 'utf8'), { merge: true }))
  const { gateway } = services
  const trusting = { NODE_EXTRA_CA_CERTS: '/etc/postern/trust/ca.crt' }
  const environment = z.record(z.string(), z.string()).parse(gateway['environment'])
  const volumes = z.array(z.string()).parse(gateway['volumes'])
  const trusted = `${trust}/ca.crt:/etc/postern/trust/ca.crt:ro`
  // All tests come from one address.
  const shared = { environment: { ...environment, ...trusting, POSTERN_PUBLIC_REQUESTS: '1000000' } }
  // At the default rate, health checks take a third of two processors.
  const calm = { healthcheck: { interval: '30s' } }
  // Other containers wait for these to be healthy.
  const calmer = { healthcheck: { interval: '15s' } }
  const signInPort = new URL(issuer).port
  return {
    services: {
      ...Object.fromEntries(doubled.map((name) => [name, calm])),
      ...Object.fromEntries(['postgres', 'pgbouncer', 'redis', 'store'].map((name) => [name, calmer])),
      console: calm,
      gateway: { ...shared, ...calm, ports: [`127.0.0.1:${firstAdmin}:9080`] },
      'gateway-b': {
        ...gateway,
        ...shared,
        ...calm,
        volumes: [...volumes, trusted],
        ports: [`127.0.0.1:${port}:8080`, `127.0.0.1:${secondAdmin}:9080`],
      },
      'sign-in': {
        image: images.postern,
        user: `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`,
        working_dir: root,
        volumes: [`${root}:${root}:ro`, `${trust}:/trust:ro`],
        environment: { NODE_ENV: 'test' },
        command: ['--conditions=@postern/source', 'verification/containers/sign-in.ts', '/trust', issuer, consoleUrl],
        healthcheck: { disable: true },
        networks: { edge: { aliases: [signInName] } },
        ports: [`127.0.0.1:${signInPort}:${signInPort}`],
      },
    },
  }
}

async function askDirectly(url: string): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(8_000) })
  await answer.body?.cancel()
  return answer.ok
}

export function attach(installation: Installation): Compose {
  const { project, secrets, images, home } = installation
  const engine = engineOf(installation.engine.env, installation.engine.compose, installation.engine.own)
  const env = {
    ...engine.env,
    POSTERN_IMAGE: images.postern,
    PGBOUNCER_IMAGE: images.pgbouncer,
    STORE_IMAGE: images.store,
    POSTGRES_IMAGE: images.postgres,
    REDIS_IMAGE: images.redis,
    POSTERN_SECRETS: secrets,
    POSTERN_PORT: new URL(installation.gateways[0]?.url ?? '').port,
    POSTERN_CONSOLE_PORT: new URL(installation.consoleUrl).port,
    POSTERN_CONSOLE_URL: installation.consoleUrl,
    POSTERN_TLS: installation.trust,
    POSTERN_OIDC_ISSUER: installation.issuer,
    POSTERN_OIDC_AUDIENCE: 'postern',
    // A port without a server: e-mails fail.
    POSTERN_SMTP_URL: 'smtp://127.0.0.1:9',
    POSTERN_SMTP_FROM: 'postern@harbourline.example',
    POSTERN_UID: String(uid),
    POSTERN_GID: String(gid),
  }
  const [command = '', ...first] = engine.compose
  const files = [composeFile, tlsFile, join(home, 'overlay.json')].flatMap((file) => ['--file', file])
  const compose = async (args: readonly string[], timeoutMs = 300_000): Promise<string> =>
    await run(command, [...first, '--project-name', project, ...files, ...args], {
      env,
      timeoutMs,
    })
  const containers = async (service: string): Promise<string[]> => {
    const labels = [`com.docker.compose.project=${project}`, `com.docker.compose.service=${service}`]
    const filters = labels.flatMap((label) => ['--filter', `label=${label}`])
    const format = '{{.Label "com.docker.compose.container-number"}} {{.ID}}'
    const lines = (await engine.docker(['ps', '--all', ...filters, '--format', format])).split('\n')
    return lines
      .filter((line) => line !== '')
      .toSorted()
      .map((line) => line.split(' ')[1] ?? '')
  }
  const findHealth = async (container: string): Promise<string | undefined> => {
    const format =
      '{{index .Config.Labels "com.docker.compose.service"}}{{range .NetworkSettings.Networks}} {{.IPAddress}}{{end}}'
    const [name = '', address = ''] = (await engine.docker(['inspect', '--format', format, container])).split(' ')
    if (address === '') return undefined
    const port = name.startsWith('gateway') || name === 'console' ? 9080 : 8080
    return `http://${address}:${port}/internal/health/ready`
  }
  const askWithin = async (container: string): Promise<boolean> => {
    await engine.docker(['exec', container, 'node', 'deploy/healthcheck.mjs'], { timeoutMs: 20_000 })
    return true
  }
  /** Starting programs in containers is slow. */
  const readiness = (container: string): (() => Promise<boolean>) => {
    let asked = 0
    let url: string | undefined
    return async () => {
      if (!engine.own) return await askWithin(container)
      // A container that restarts may have a new address.
      if (url === undefined || asked % 20 === 0) url = await findHealth(container)
      asked += 1
      return url !== undefined && (await askDirectly(url))
    }
  }
  const takeDown = async (): Promise<unknown> =>
    await compose(['down', '--volumes', '--timeout', '10']).catch(() => undefined)
  const own: Compose = {
    installation,
    compose,
    docker: async (args, options) => await engine.docker(args, options),
    operatorContainer: operatorOf(project),
    containers,
    operator: async (...args) =>
      await engine.docker(['exec', operatorOf(project), 'node', 'packages/cli/dist/main.js', ...args]),
    waitUntilReady: async (container) => {
      const deadline = performance.now() + 180_000
      const isReady = readiness(container)
      while (!(await isReady().catch(() => false))) {
        if (performance.now() > deadline) {
          throw new Error(`a container is not ready:\n${await engine.docker(['logs', '--tail', '20', container])}`)
        }
        await delay(500)
      }
    },
    handOutSecrets: async () => {
      await mkdir(secrets, { recursive: true, mode: 0o755 })
      const postgres = 'postgres:5432?sslmode=verify-full'
      const pooler = 'pgbouncer:6432?sslmode=verify-full'
      await initSecrets(secrets, { postgres, pooler, redis: 'rediss://redis:6379', database: 'postern' })
      if (process.getuid?.() === 0) await give(secrets)
    },
    logs: async () => await compose(['logs', '--no-color', '--tail', '40']).catch((error: unknown) => String(error)),
    down: async () => {
      await engine.docker(['rm', '--force', operatorOf(project)]).catch(() => undefined)
      await takeDown()
      // A container may be restarting after an aborted run.
      const label = `label=com.docker.compose.project=${project}`
      const left = await engine.docker(['ps', '--all', '--quiet', '--filter', label]).catch(() => '')
      if (left !== '') {
        await engine.docker(['rm', '--force', ...left.split('\n')]).catch(() => undefined)
        await takeDown()
      }
      await rm(home, { recursive: true, force: true })
    },
  }
  return own
}

async function give(folder: string): Promise<void> {
  await chown(folder, uid, gid)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    await (entry.isDirectory() ? give(path) : chown(path, uid, gid))
  }
}
