import type { AddressInfo } from 'node:net'
import { createApp } from './app.ts'
import type { BaseConfig, Environment } from './config.ts'
import { ConfigurationError, unknownSettings } from './config.ts'
import type { App } from './register-route.ts'
import { type Logger, createLogger } from './logger.ts'
import { type Registry, createMetrics } from './metrics.ts'
import { watchEventLoop } from './pressure.ts'
import { answersWithinMs, closeOnSignal, watchServer } from './shutdown.ts'
import { type Tracing, openTracing } from './tracing/tracing.ts'

export interface BaseDeps {
  ready(): Promise<void>
  degraded?(): readonly string[]
  /** The gateway checks that all services share one. */
  databaseId?(): Promise<string | undefined>
  /** Stops background work; requests are still answered. */
  drain?(): Promise<void>
  close(): Promise<void>
}

export interface ServiceDefinition<Config extends BaseConfig, Deps extends BaseDeps> {
  readonly name: string
  readConfig(env: Environment): Config
  openDeps(
    config: Config,
    base: { readonly logger: Logger; readonly metrics: Registry; readonly tracing: Tracing | undefined },
  ): Promise<Deps>
  buildApp(app: App, deps: Deps, config: Config): void
}

export interface RunningService {
  readonly url: string
  readonly port: number
  readonly logger: Logger
  close(): Promise<void>
}

/** `overrides` replaces dependencies in tests. */
export async function startService<Config extends BaseConfig, Deps extends BaseDeps>(
  definition: ServiceDefinition<Config, Deps>,
  env: Environment,
  options: { readonly overrides?: Partial<Deps>; readonly writeLog?: (line: string) => void } = {},
): Promise<RunningService> {
  const config = definition.readConfig(env)
  const tracing = await openTracing(config.tracing, {
    service: definition.name,
    followsCaller: true,
    onFailure: (reason) => logger.warn({ event: 'trace_export_failed', reason }),
  })
  const logger = createLogger({
    service: definition.name,
    level: config.logLevel,
    ...(options.writeLog === undefined ? {} : { write: options.writeLog }),
    ...(tracing === undefined ? {} : { fields: tracing.logFields }),
  })
  warnOfUnknownSettings(logger, env)
  const metrics = createMetrics(definition.name)
  const opened = await definition.openDeps(config, { logger, metrics, tracing })
  const deps = { ...opened, ...options.overrides }
  let draining = false
  const pressure = watchEventLoop({ maxDelayMs: config.maxEventLoopDelayMs, metrics })
  const app = createApp({
    config,
    logger,
    metrics,
    ready: async () => await deps.ready(),
    degraded: () => deps.degraded?.() ?? [],
    databaseId: async () => await deps.databaseId?.(),
    isDraining: () => draining,
    pressure,
    tracing,
  })
  const server = watchServer(app)
  try {
    definition.buildApp(app, deps, config)
    await app.listen({ host: config.host, port: config.port })
  } catch (error) {
    pressure.close()
    await deps.close()
    throw error
  }
  const port = listeningPort(app)
  logger.info({ event: 'listening', host: config.host, port })
  return {
    url: `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`,
    port,
    logger,
    close: async () => {
      draining = true
      const drained = deps.drain?.()
      await server.close({ drainMs: config.drainMs, withinMs: answersWithinMs(config), logger })
      await drained
      pressure.close()
      await deps.close()
      await tracing?.close()
    },
  }
}

export function listeningPort(app: App): number {
  const address: AddressInfo | string | null = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a port')
  return address.port
}

/** A misspelled setting would silently have no effect. */
export function warnOfUnknownSettings(logger: Logger, env: Environment): void {
  const names = unknownSettings(env)
  if (names.length > 0) logger.warn({ event: 'settings_unknown', names })
}

export async function runService<Config extends BaseConfig, Deps extends BaseDeps>(
  definition: ServiceDefinition<Config, Deps>,
): Promise<void> {
  try {
    const running = await startService(definition, process.env)
    closeOnSignal(running.logger, running.close)
  } catch (error) {
    failStart(definition.name, error)
  }
}

/** Exits with code 1. */
export function failStart(service: string, error: unknown): never {
  const logger = createLogger({ service, level: 'info' })
  if (error instanceof ConfigurationError) logger.fatal({ event: 'configuration_refused', reason: error.message })
  else {
    const reason = listenRemedy(error)
    logger.fatal({ event: 'start_failed', ...(reason === undefined ? {} : { reason }), err: error })
  }
  process.exit(1)
}

/** Returns undefined for other errors. */
export function listenRemedy(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined
  const port = 'port' in error ? String(error.port) : 'unknown'
  switch (`${String(error.syscall)} ${String(error.code)}`) {
    case 'listen EADDRINUSE':
      return `port ${port} is in use: stop the process that listens there, or set POSTERN_PORT (or POSTERN_ADMIN_PORT) to a free port`
    case 'listen EACCES':
      return `this account may not listen on port ${port}: set POSTERN_PORT (or POSTERN_ADMIN_PORT) to 1024 or more`
    case 'listen EADDRNOTAVAIL':
    case 'getaddrinfo ENOTFOUND':
    case 'getaddrinfo EAI_AGAIN':
      return 'POSTERN_HOST is not an address of this machine'
    default:
      return undefined
  }
}
