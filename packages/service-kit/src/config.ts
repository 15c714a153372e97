import { readFileSync } from 'node:fs'
import { wordsOf } from '@postern/contracts'
import type { KeyRing } from '@postern/signed-context'
import { z } from 'zod'
import { type LogLevel, logLevels } from './logger.ts'
import { settings } from './settings.ts'
import type { ShareLimits } from './tenant-shares.ts'
import type { TracingConfig } from './tracing/tracing.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface BaseConfig {
  /** Default 127.0.0.1. */
  readonly host: string
  /** 0 takes a free port, which the log line `listening` names. */
  readonly port: number
  readonly logLevel: LogLevel
  readonly requestLog: boolean
  readonly drainMs: number
  /** Event loop delay in milliseconds above which requests get 503. 0: never. */
  readonly maxEventLoopDelayMs: number
  readonly maxSockets: number
  readonly bodyTimeoutMs: number
  readonly shares: ShareLimits
  readonly tracing: TracingConfig
  /** Compares each answer with its contract, for tests. */
  readonly checkAnswers: boolean
  /** Accepted signing keys: name → current and previous secret. */
  readonly verifiers: Readonly<Record<string, KeyRing>>
  readonly revokedOperators: ReadonlySet<string>
}

export class ConfigurationError extends Error {
  constructor(faults: readonly string[]) {
    super(`the configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
    this.name = 'ConfigurationError'
  }
}

const known = new Set<string>()

/** Call it after all settings are read. */
export function unknownSettings(env: Environment): readonly string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('POSTERN_') && !known.has(name) && !known.has(name.replace(/_FILE$/, '')))
    .toSorted()
}

/** Reads variables or `<NAME>_FILE` files. Throws a ConfigurationError that lists every fault, without values. */
export function parseEnvironment<const S extends Readonly<Record<string, z.ZodType>>>(
  env: Environment,
  shape: S,
): z.output<z.ZodObject<S>> {
  const faults: string[] = []
  const given: Record<string, string> = {}
  for (const name of Object.keys(shape)) {
    known.add(name)
    const value = readSetting(env, name, faults)
    if (value !== undefined) given[name] = value
  }
  const parsed = z.object(shape).safeParse(given)
  for (const issue of parsed.error?.issues ?? []) {
    const name = issue.path.join('.')
    const missing = given[name] === undefined
    if (!faults.some((fault) => fault.startsWith(name))) {
      faults.push(`${name}: ${missing ? 'must be set (or the file that holds it, with _FILE)' : wordsOf(issue)}`)
    }
  }
  if (parsed.data === undefined || faults.length > 0) throw new ConfigurationError(faults)
  return parsed.data
}

function readSetting(env: Environment, name: string, faults: string[]): string | undefined {
  const value = env[name] === '' ? undefined : env[name]
  const file = env[`${name}_FILE`]
  if (file === undefined || file === '') return value
  if (value !== undefined) {
    faults.push(`${name}: set it or ${name}_FILE, not both`)
    return undefined
  }
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '')
  } catch {
    faults.push(`${name}_FILE: the file cannot be read`)
    return undefined
  }
}

export const baseEnvironment = {
  POSTERN_HOST: settings.text('127.0.0.1').describe('The address to listen on.'),
  POSTERN_PORT: settings
    .port(0)
    .describe('The port to listen on. 0 takes a free one, which the log line `listening` names.'),
  POSTERN_LOG_LEVEL: z.enum(logLevels).default('info').describe('The least severe log lines to write.'),
  POSTERN_REQUEST_LOG: settings.onOff('on').describe('Whether to write a log line for each request.'),
  POSTERN_DRAIN_MS: settings
    .integer({ min: 0, max: 20_000, fallback: 0 })
    .describe(
      'How long an ending process still accepts requests, in milliseconds. Keep it above 2500 behind a load balancer.',
    ),
  POSTERN_MAX_EVENT_LOOP_DELAY_MS: settings
    .integer({ min: 0, max: 60_000, fallback: 1000 })
    .describe('The event loop delay, in milliseconds, beyond which requests get 503 `overloaded`. 0: never.'),
  POSTERN_MAX_CONNECTIONS: settings
    .integer({ min: 10, max: 1_000_000, fallback: 10_000 })
    .describe('Connections of clients to this process. Above 80 % it closes idle ones.'),
  POSTERN_BODY_TIMEOUT_MS: settings
    .integer({ min: 100, max: 600_000, fallback: 30_000 })
    .describe('A request body that brings less than 1 KiB in this time is cut off, in milliseconds.'),
  POSTERN_TENANT_REQUESTS: settings
    .integer({ min: 1, max: 1_000_000, fallback: 256 })
    .describe('Concurrent requests of one tenant in a service. More get 429.'),
  POSTERN_TENANT_LARGE_ANSWERS: settings
    .integer({ min: 1, max: 1_000_000, fallback: 8 })
    .describe('Concurrent exports, responses with `expand` and log checks of one tenant in a service. More get 429.'),
  POSTERN_HELD_BYTES: settings
    .integer({ min: 1024 * 1024, max: 1024 ** 4, fallback: 32 * 1024 * 1024 })
    .describe(
      'Bytes of request bodies and unsent rows that a service may hold, three quarters for one tenant. More get 429. Raise the memory limit by several times as much.',
    ),
  POSTERN_OTLP_URL: settings.httpUrl
    .optional()
    .describe('Where to send traces by OTLP over HTTP, such as `http://collector:4318`. If empty, no traces are sent.'),
  POSTERN_TRACE_PERCENT: settings
    .integer({ min: 0, max: 100, fallback: 100 })
    .describe('The share of requests that the gateway traces, in percent.'),
  POSTERN_CHECK_ANSWERS: settings
    .onOff('off')
    .describe('Whether to compare each response with its contract. For tests, since it takes time.'),
} as const

/** Idle connections must outlive those of a load balancer. */
export const edgeEnvironment = {
  POSTERN_KEEP_ALIVE_MS: settings
    .integer({ min: 1000, max: 86_400_000, fallback: 620_000 })
    .describe(
      "How long an idle client connection stays open, in milliseconds. It must exceed the load balancer's idle time-out, or requests are lost.",
    ),
  POSTERN_UNREAD_BYTES: settings
    .integer({ min: 1024 * 1024, max: 1024 ** 4, fallback: 16 * 1024 * 1024 })
    .describe(
      'Bytes of responses that may wait for clients that do not read. Beyond it, connections of the tenant with the most such bytes are cut.',
    ),
} as const

export function baseConfig(
  values: z.output<z.ZodObject<typeof baseEnvironment>>,
  verifiers: Readonly<Record<string, KeyRing>>,
  revokedOperators: ReadonlySet<string> = new Set(),
): BaseConfig {
  return {
    host: values.POSTERN_HOST,
    port: values.POSTERN_PORT,
    logLevel: values.POSTERN_LOG_LEVEL,
    requestLog: values.POSTERN_REQUEST_LOG,
    drainMs: values.POSTERN_DRAIN_MS,
    maxEventLoopDelayMs: values.POSTERN_MAX_EVENT_LOOP_DELAY_MS,
    maxSockets: values.POSTERN_MAX_CONNECTIONS,
    bodyTimeoutMs: values.POSTERN_BODY_TIMEOUT_MS,
    shares: {
      maxRequests: values.POSTERN_TENANT_REQUESTS,
      maxLargeAnswers: values.POSTERN_TENANT_LARGE_ANSWERS,
      maxBytes: values.POSTERN_HELD_BYTES,
    },
    tracing: { url: values.POSTERN_OTLP_URL, percent: values.POSTERN_TRACE_PERCENT },
    checkAnswers: values.POSTERN_CHECK_ANSWERS,
    verifiers,
    revokedOperators,
  }
}
