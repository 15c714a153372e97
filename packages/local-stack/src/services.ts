import { join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import { type RedisClientName, formerRingNames } from '@postern/installation'
import { request } from 'undici'
import { nodeFlagsOf } from './node-flags.ts'
import { compileCache, repositoryRoot } from './paths.ts'
import { ensurePrograms } from '../programs.mjs'
import { loopback } from './ports.ts'
import type { ManagedProcess } from './processes.ts'
import { findListeningPort, launch, waitUntilReady } from './processes.ts'
import type { RingName, Secrets } from './secrets.ts'

/** The service, with `-2` for its second process, or `gateway-` and a number from 1. */
export type ServiceProcessName = Upstream | `${Upstream}-2` | `gateway-${number}`

export type Destination = Upstream | 'database' | 'redis'

/** Returns `url`, or a detour that may lead to the second process. */
export type Route = (
  from: ServiceProcessName | 'operator',
  to: Destination,
  url: string,
  second?: string,
) => Promise<string>

interface ServiceProcess {
  readonly name: ServiceProcessName
  readonly url: string
  readonly process: ManagedProcess
}

export interface ServicesOptions {
  readonly home: string
  readonly secrets: Secrets
  databaseUrl(service: Upstream): string
  readonly redisUrls: Readonly<Record<RedisClientName, string>>
  readonly ports: Readonly<Record<Upstream, number>>
  readonly secondPorts?: Readonly<Partial<Record<Upstream, number>>>
  readonly gateways: readonly { readonly port: number; readonly adminPort: number }[]
  readonly env?: Readonly<Record<string, string>>
  readonly route?: Route | undefined
  readonly sources?: string | undefined
  readonly fromSources?: readonly (Upstream | 'gateway')[] | undefined
  readonly signal?: AbortSignal
  /** Creates the tenants that a sign-in file names. Gateways then start after the services. */
  readonly beforeGateways?: ((keysUrl: string) => Promise<void>) | undefined
}

export interface Services {
  readonly gateways: readonly string[]
  readonly url: (service: Upstream) => string
  readonly process: (name: ServiceProcessName) => ManagedProcess
  readonly restart: (name: ServiceProcessName, env?: Readonly<Record<string, string>>) => Promise<void>
  stop(): Promise<void>
  readonly failed: Promise<ManagedProcess>
}

interface ServiceNeeds {
  readonly rings: readonly RingName[]
  readonly database: boolean
  readonly redis?: RedisClientName
  readonly upstreams: readonly Upstream[]
}

const needs: Readonly<Record<Upstream | 'gateway', ServiceNeeds>> = {
  keys: {
    rings: [
      'POSTERN_SIGNING_KEYS',
      'POSTERN_SIGNING_OPERATOR',
      'POSTERN_INTERNAL_SIGNING_KEYS',
      'POSTERN_CACHE_SIGNING_KEYS',
    ],
    database: true,
    redis: 'keys',
    upstreams: [],
  },
  findings: {
    rings: [
      'POSTERN_SIGNING_FINDINGS',
      'POSTERN_SIGNING_FINDINGS_UNIVERSE',
      'POSTERN_SIGNING_FINDINGS_EVIDENCE',
      'POSTERN_SIGNING_UNIVERSE_FINDINGS',
    ],
    database: true,
    upstreams: ['universe', 'evidence'],
  },
  universe: {
    rings: [
      'POSTERN_SIGNING_UNIVERSE',
      'POSTERN_SIGNING_SYNC_UNIVERSE',
      'POSTERN_SIGNING_EVIDENCE_UNIVERSE',
      'POSTERN_SIGNING_FINDINGS_UNIVERSE',
      'POSTERN_SIGNING_UNIVERSE_FINDINGS',
    ],
    database: true,
    upstreams: ['findings'],
  },
  evidence: {
    rings: ['POSTERN_SIGNING_EVIDENCE', 'POSTERN_SIGNING_EVIDENCE_UNIVERSE', 'POSTERN_SIGNING_FINDINGS_EVIDENCE'],
    database: true,
    upstreams: ['universe'],
  },
  sync: {
    rings: [
      'POSTERN_SIGNING_SYNC',
      'POSTERN_SIGNING_SYNC_UNIVERSE',
      'POSTERN_SIGNING_OPERATOR',
      'POSTERN_SYNC_SECRETS',
    ],
    database: true,
    upstreams: ['universe'],
  },
  gateway: {
    rings: [
      'POSTERN_SIGNING_KEYS',
      'POSTERN_SIGNING_FINDINGS',
      'POSTERN_SIGNING_UNIVERSE',
      'POSTERN_SIGNING_EVIDENCE',
      'POSTERN_SIGNING_SYNC',
      'POSTERN_ASSERTION_KEYS',
      'POSTERN_INTERNAL_SIGNING_KEYS',
      'POSTERN_CACHE_SIGNING_KEYS',
    ],
    database: false,
    redis: 'gateway',
    upstreams: ['keys', 'findings', 'universe', 'evidence', 'sync'],
  },
}

const services = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const

export async function startServices(options: ServicesOptions): Promise<Services> {
  const running = new Map<ServiceProcessName, ServiceProcess>()
  const starts = new Map<ServiceProcessName, number>()
  const failed = Promise.withResolvers<ManagedProcess>()
  const expected = new WeakSet<ManagedProcess>()

  const startOne = async (name: ServiceProcessName, port: number, extra: Readonly<Record<string, string>>) => {
    options.signal?.throwIfAborted()
    const kind = kindOf(name)
    const sources = isFromSources(kind, options) ? options.sources : undefined
    const count = (starts.get(name) ?? 0) + 1
    starts.set(name, count)
    const process = await launch({
      name,
      command: globalThis.process.execPath,
      args: argumentsOf(kind, sources),
      env: { ...(await environment(name, port, options)), ...extra },
      cwd: sources ?? repositoryRoot,
      logFile: join(options.home, 'logs', count === 1 ? `${name}.log` : `${name}.${count}.log`),
    })
    const service = { name, url: `http://${loopback}:${port}`, process }
    running.set(name, service)
    await waitUntilReady(process, () => findListeningPort(process.logFile) !== undefined)
    void watch(process)
  }

  const watch = async (process: ManagedProcess) => {
    await process.exited
    if (!expected.has(process)) failed.resolve(process)
  }

  const stopOne = async ({ process }: ServiceProcess) => {
    expected.add(process)
    await process.stop()
  }

  const stop = async () => {
    const all = [...running.values()]
    await Promise.all(all.filter(({ name }) => kindOf(name) === 'gateway').map(stopOne))
    await Promise.all(all.filter(({ name }) => kindOf(name) !== 'gateway').map(stopOne))
  }

  const find = (name: ServiceProcessName): ServiceProcess => {
    const service = running.get(name)
    if (service === undefined) throw new Error(`no process is called ${name}`)
    return service
  }

  try {
    const seconds = services.flatMap((name) => {
      const port = options.secondPorts?.[name]
      return port === undefined ? [] : [[`${name}-2`, port] as const]
    })
    const all = [...services.map((name) => [name, options.ports[name]] as const), ...seconds]
    const gateways = options.gateways.map(({ port }, index) => [`gateway-${index + 1}`, port] as const)
    // A gateway asks for its lease until the keys service grants it.
    const { beforeGateways } = options
    const startAll = async (some: readonly (readonly [ServiceProcessName, number])[]): Promise<void> =>
      await awaitAll(some.map(async ([name, port]) => await startOne(name, port, {})))
    if (beforeGateways === undefined) await startAll([...all, ...gateways])
    else {
      await startAll(all)
      await beforeGateways(find('keys').url)
      await startAll(gateways)
    }
    await awaitAll(gateways.map(async ([name]) => await waitForLease(find(name).process)))
  } catch (error) {
    await stop()
    throw error
  }

  return {
    gateways: options.gateways.map(({ port }) => `http://${loopback}:${port}`),
    url: (service) => find(service).url,
    process: (name) => find(name).process,
    restart: async (name, env = {}) => {
      const before = find(name)
      await stopOne(before)
      await startOne(name, Number(new URL(before.url).port), env)
    },
    stop,
    failed: failed.promise,
  }
}

/** Without a lease, a gateway rejects every request. */
async function waitForLease(gateway: ManagedProcess): Promise<void> {
  const url = `http://${loopback}:${findListeningPort(gateway.logFile, 'admin_port') ?? 0}/internal/health/ready`
  await waitUntilReady(gateway, async () => {
    const answer = await request(url).catch(() => undefined)
    await answer?.body.dump()
    return answer?.statusCode === 200
  })
}

async function awaitAll(work: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(work)
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

function kindOf(name: ServiceProcessName): Upstream | 'gateway' {
  return services.find((service) => service === name || `${service}-2` === name) ?? 'gateway'
}

export function programOf(kind: Upstream | 'gateway' | 'postern' | 'start'): string {
  return ensurePrograms().pathOf(kind)
}

function isFromSources(
  kind: Upstream | 'gateway',
  { sources, fromSources }: Pick<ServicesOptions, 'sources' | 'fromSources'>,
): boolean {
  return sources !== undefined && fromSources?.includes(kind) !== false
}

function argumentsOf(kind: Upstream | 'gateway', sources: string | undefined): string[] {
  if (sources === undefined) return [...nodeFlagsOf(kind), programOf(kind)]
  return [...nodeFlagsOf(kind), '--conditions=@postern/source', join(sources, 'services', kind, 'src', 'main.ts')]
}

export function urlsOf(
  service: Upstream,
  { ports, secondPorts }: Pick<ServicesOptions, 'ports' | 'secondPorts'>,
): [url: string, second?: string] {
  const second = secondPorts?.[service]
  const first = `http://${loopback}:${ports[service]}`
  return second === undefined ? [first] : [first, `http://${loopback}:${second}`]
}

/** Secrets are paths of files, so that `ps` and crash reports do not show them. */
async function environment(
  name: ServiceProcessName,
  port: number,
  options: ServicesOptions,
): Promise<Record<string, string>> {
  const { home, secrets, route = async (_from, _to, url) => url } = options
  const kind = kindOf(name)
  const { rings, database, redis, upstreams } = needs[kind]
  const env: Record<string, string> = {
    PATH: '/usr/bin:/bin',
    TZ: 'UTC',
    NODE_COMPILE_CACHE: compileCache,
    POSTERN_HOST: loopback,
    POSTERN_PORT: String(port),
  }
  for (const ring of rings) {
    env[`${ring}_FILE`] = secrets.ringFile(ring)
    const formerName = formerRingNames[ring]
    if (isFromSources(kind, options) && formerName !== undefined) env[`${formerName}_FILE`] = secrets.ringFile(ring)
  }
  for (const upstream of upstreams) {
    env[`POSTERN_${upstream.toUpperCase()}_URL`] = await route(name, upstream, ...urlsOf(upstream, options))
  }
  if (database && kind !== 'gateway') {
    const url = await route(name, 'database', options.databaseUrl(kind))
    env['POSTERN_DATABASE_URL_FILE'] = await secrets.put(`database-url-${name}`, url)
  }
  if (redis !== undefined) {
    const url = await route(name, 'redis', options.redisUrls[redis])
    env['POSTERN_REDIS_URL_FILE'] = await secrets.put(`redis-url-${name}`, url)
  }
  if (kind === 'evidence') {
    env['POSTERN_BLOB_DIRECTORY'] = join(home, 'blobs')
    env['POSTERN_RECEIPT_KEY_FILE'] = secrets.receiptKeyFile
  }
  if (kind === 'sync' && options.gateways[0] !== undefined) {
    env['POSTERN_API_URL'] = `http://${loopback}:${options.gateways[0].port}`
  }
  if (kind === 'findings') env['POSTERN_CHECKPOINT_KEY_FILE'] = secrets.checkpointKeyFile
  if (kind === 'gateway') {
    const index = options.gateways.findIndex((gateway) => gateway.port === port)
    env['POSTERN_ADMIN_PORT'] = String(options.gateways[index]?.adminPort ?? 0)
    env['POSTERN_GATEWAY_NAME'] = name
  }
  for (const [variable, value] of Object.entries(options.env ?? {})) {
    // A process warns of settings that it does not know.
    if (kind === 'gateway' ? variable.startsWith('POSTERN_DATABASE_') : isOfSignIn(variable)) continue
    // Services reject a setting with both a value and a file.
    delete env[`${variable}_FILE`]
    env[variable] = value
  }
  return env
}

function isOfSignIn(variable: string): boolean {
  return variable.startsWith('POSTERN_OIDC_') || variable.startsWith('POSTERN_SIGN_IN')
}
