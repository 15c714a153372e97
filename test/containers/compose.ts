import { chown, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { initSecrets } from '@postern/installation'
import { findFreePort } from '@postern/local-stack/testing'
import { parse } from 'yaml'
import { z } from 'zod'
import { type Engine, type RunOptions, engineOf, run } from './engine.ts'
import type { Images } from './images.ts'

const composeFile = join(import.meta.dirname, '..', '..', 'deploy', 'compose.yaml')

/** Parts of which there are two, so that one can be replaced while the other answers. */
export const doubled = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

/** An installation on Docker, as the compose file makes it: with two of each service, and two gateways. */
export interface Installation {
  readonly engine: Pick<Engine, 'env' | 'compose' | 'own'>
  readonly images: Images
  readonly home: string
  /** Origins of the gateways, and what tells whether each is ready, as a load balancer would ask. */
  readonly gateways: readonly { readonly name: string; readonly url: string; readonly readyUrl: string }[]
  /** Origin of the console. Nobody can sign in: its OpenID provider is a name that leads nowhere. */
  readonly consoleUrl: string
  readonly secrets: string
  readonly project: string
}

const uid = process.getuid?.() === 0 ? 10001 : (process.getuid?.() ?? 10001)
const gid = process.getuid?.() === 0 ? 10001 : (process.getgid?.() ?? 10001)

export interface Compose {
  readonly installation: Installation
  /** Runs a compose command. */
  compose(args: readonly string[], timeoutMs?: number): Promise<string>
  docker(args: readonly string[], options?: RunOptions): Promise<string>
  /** A container of the operator's own, which waits. */
  readonly operatorContainer: string
  /** Ids of the containers of a service, the first one first. */
  containers(service: string): Promise<readonly string[]>
  /** Runs the operator's command in its container. */
  operator(...args: readonly string[]): Promise<string>
  /** Whether a container of ours says that a request would succeed now. */
  isReady(container: string): Promise<boolean>
  waitUntilReady(container: string): Promise<void>
  /** Hands the files of the secrets folder out anew. */
  handOutSecrets(): Promise<void>
  logs(): Promise<string>
  down(): Promise<void>
}

/** Starts an installation; resolves when everything is ready. */
export async function composeUp(engine: Engine, images: Images): Promise<Compose> {
  const home = await mkdtemp(join(tmpdir(), 'postern-compose-'))
  const ports = new Set<number>()
  // Nothing listens on them yet: the same one may be free twice.
  while (ports.size < 5) ports.add(await findFreePort())
  const [first = 0, second = 0, firstAdmin = 0, secondAdmin = 0, consolePort = 0] = ports
  await writeFile(join(home, 'two-gateways.json'), await twoGateways(second, firstAdmin, secondAdmin))
  const installation: Installation = {
    engine: { env: engine.env, compose: engine.compose, own: engine.own },
    images,
    home,
    project: `postern${process.pid}`,
    secrets: join(home, 'secrets'),
    consoleUrl: `http://localhost:${consolePort}`,
    gateways: [
      { name: 'gateway', url: `http://127.0.0.1:${first}`, readyUrl: readyAt(firstAdmin) },
      { name: 'gateway-b', url: `http://127.0.0.1:${second}`, readyUrl: readyAt(secondAdmin) },
    ],
  }
  const compose = attach(installation)
  try {
    await compose.handOutSecrets()
    const scale = doubled.flatMap((name) => ['--scale', `${name}=2`])
    await compose.compose(['up', '--detach', '--no-build', ...scale], 600_000)
    // A container of the operator's own that waits: to start one for each command would take a second each.
    const idle = ['--entrypoint', 'node', 'operator', '-e', 'setInterval(()=>{},1e9)']
    await compose.compose(['run', '--detach', '--no-deps', '--name', operatorOf(installation.project), ...idle])
    for (const name of [...installation.gateways.map((gateway) => gateway.name), 'console']) {
      for (const container of await compose.containers(name)) await compose.waitUntilReady(container)
    }
    return compose
  } catch (error) {
    process.stderr.write(`${await compose.logs()}\n`)
    await compose.down()
    throw error
  }
}

const operatorOf = (project: string): string => `${project}-operator`

const readyAt = (port: number): string => `http://127.0.0.1:${port}/internal/health/ready`

/** What the tests add to the compose file: a second gateway, and the gateways' health for who balances between them. */
async function twoGateways(port: number, firstAdmin: number, secondAdmin: number): Promise<string> {
  const { services } = z
    .looseObject({ services: z.looseObject({ gateway: z.looseObject({ ports: z.array(z.string()) }) }) })
    .parse(parse(await readFile(composeFile, 'utf8'), { merge: true }))
  const { gateway } = services
  const environment = z.record(z.string(), z.string()).parse(gateway['environment'])
  const shared = { environment: { ...environment, POSTERN_GATEWAY_COUNT: '2' } }
  // Each check is a Node that starts, in a dozen containers: on two processors a sixth of what there is.
  const calm = { healthcheck: { interval: '30s' } }
  return JSON.stringify({
    services: {
      ...Object.fromEntries([...doubled, 'console'].map((name) => [name, calm])),
      gateway: { ...shared, ...calm, ports: [`127.0.0.1:${firstAdmin}:9080`] },
      'gateway-b': {
        ...gateway,
        ...shared,
        ...calm,
        ports: [`127.0.0.1:${port}:8080`, `127.0.0.1:${secondAdmin}:9080`],
      },
    },
  })
}

/** Speaks to an installation that runs. */
export function attach(installation: Installation): Compose {
  const { project, secrets, images, home } = installation
  const engine = engineOf(installation.engine.env, installation.engine.compose, installation.engine.own)
  const env = {
    ...engine.env,
    POSTERN_IMAGE: images.postern,
    PGBOUNCER_IMAGE: images.pgbouncer,
    POSTGRES_IMAGE: images.postgres,
    REDIS_IMAGE: images.redis,
    POSTERN_SECRETS: secrets,
    POSTERN_PORT: new URL(installation.gateways[0]?.url ?? '').port,
    POSTERN_CONSOLE_PORT: new URL(installation.consoleUrl).port,
    POSTERN_CONSOLE_URL: installation.consoleUrl,
    POSTERN_OIDC_ISSUER: 'https://sign-in.invalid',
    POSTERN_UID: String(uid),
    POSTERN_GID: String(gid),
  }
  const [command = '', ...first] = engine.compose
  const files = ['--file', composeFile, '--file', join(home, 'two-gateways.json')]
  const compose = async (args: readonly string[], timeoutMs = 300_000): Promise<string> =>
    await run(command, [...first, '--project-name', project, '--profile', 'console', ...files, ...args], {
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
  /** Asked from this machine where that has a way to its containers: a program that is started in one takes a fifth of a second of processor. */
  const askDirectly = async (container: string): Promise<boolean> => {
    const format =
      '{{index .Config.Labels "com.docker.compose.service"}}{{range .NetworkSettings.Networks}} {{.IPAddress}}{{end}}'
    const [name = '', address = ''] = (await engine.docker(['inspect', '--format', format, container])).split(' ')
    if (address === '') return false
    const port = name.startsWith('gateway') || name === 'console' ? 9080 : 8080
    const answer = await fetch(`http://${address}:${port}/internal/health/ready`, {
      signal: AbortSignal.timeout(8_000),
    })
    await answer.body?.cancel()
    return answer.ok
  }
  const askWithin = async (container: string): Promise<boolean> => {
    await engine.docker(['exec', container, 'node', 'deploy/healthcheck.mjs'], { timeoutMs: 20_000 })
    return true
  }
  const isReady = async (container: string): Promise<boolean> =>
    await (engine.own ? askDirectly : askWithin)(container).catch(() => false)
  const takeDown = async (): Promise<unknown> =>
    await compose(['down', '--volumes', '--timeout', '10']).catch(() => undefined)
  const own: Compose = {
    installation,
    compose,
    docker: async (args, options) => await engine.docker(args, options),
    operatorContainer: operatorOf(project),
    containers,
    isReady,
    operator: async (...args) =>
      await engine.docker(['exec', operatorOf(project), 'node', 'packages/cli/dist/main.js', ...args]),
    waitUntilReady: async (container) => {
      const deadline = performance.now() + 180_000
      while (!(await isReady(container))) {
        if (performance.now() > deadline) {
          throw new Error(`a container is not ready:\n${await engine.docker(['logs', '--tail', '20', container])}`)
        }
        await delay(500)
      }
    },
    handOutSecrets: async () => {
      await mkdir(secrets, { recursive: true, mode: 0o755 })
      const addresses = { postgres: 'postgres:5432', pooler: 'pgbouncer:6432', redis: 'redis:6379' }
      await initSecrets(secrets, { ...addresses, database: 'postern' })
      if (process.getuid?.() === 0) await give(secrets)
    },
    logs: async () => await compose(['logs', '--no-color', '--tail', '40']).catch((error: unknown) => String(error)),
    down: async () => {
      await engine.docker(['rm', '--force', operatorOf(project)]).catch(() => undefined)
      await takeDown()
      // One that was just being restarted, as when a run is broken off, comes back meanwhile.
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

/** Makes a folder the property of who runs in the containers. */
async function give(folder: string): Promise<void> {
  await chown(folder, uid, gid)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    await (entry.isDirectory() ? give(path) : chown(path, uid, gid))
  }
}
