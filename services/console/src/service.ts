import {
  type Environment,
  type Logger,
  answersWithinMs,
  closeOnSignal,
  createApp,
  createLogger,
  createMetrics,
  listeningPort,
  closeConnectionsWhenDraining,
  warnOfUnknownSettings,
  watchServer,
  watchEventLoop,
} from '@postern/service-kit'
import { createConsoleApp } from './app.ts'
import { readConfig } from './config.ts'
import { type Deps, openDeps } from './deps.ts'

export interface RunningConsole {
  readonly url: string
  readonly port: number
  readonly adminPort: number
  readonly logger: Logger
  close(): Promise<void>
}

export interface ConsoleOptions {
  readonly writeLog?: (line: string) => void
  readonly overrides?: Partial<Deps>
  readonly now?: () => number
}

/** Starts a console and logs `listening` with its ports. */
export async function startConsole(env: Environment, options: ConsoleOptions = {}): Promise<RunningConsole> {
  const config = readConfig(env)
  const logger = createLogger({
    service: 'console',
    level: config.logLevel,
    ...(options.writeLog === undefined ? {} : { write: options.writeLog }),
  })
  warnOfUnknownSettings(logger, env)
  const metrics = createMetrics('console')
  const deps = { ...openDeps(config, { logger, metrics, now: options.now ?? Date.now }), ...options.overrides }
  let draining = false
  const pressure = watchEventLoop({ maxDelayMs: config.maxEventLoopDelayMs, metrics })
  const app = createConsoleApp(config, deps, { logger, metrics, pressure })
  const server = watchServer(app)
  closeConnectionsWhenDraining(app, () => draining)
  const admin = createApp({ config, logger, metrics, ready: deps.ready, isDraining: () => draining })
  const adminServer = watchServer(admin)
  const close = async (): Promise<void> => {
    draining = true
    await server.close({ drainMs: config.drainMs, withinMs: answersWithinMs(config), logger })
    pressure.close()
    await deps.close()
    await adminServer.close({ drainMs: 0, withinMs: 1000, logger })
  }
  try {
    await admin.listen({ host: config.host, port: config.adminPort })
    await app.listen({ host: config.host, port: config.port })
  } catch (error) {
    await close()
    throw error
  }
  const [port, adminPort] = [listeningPort(app), listeningPort(admin)]
  logger.info({ event: 'listening', host: config.host, port, admin_port: adminPort })
  return { url: `http://${config.host}:${port}`, port, adminPort, logger, close }
}

export async function runConsole(env: Environment): Promise<void> {
  const running = await startConsole(env)
  closeOnSignal(running.logger, running.close)
}
