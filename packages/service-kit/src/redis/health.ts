import { Gauge } from '@prometheus-io/client'
import type { Logger } from '../logger.ts'
import type { Registry } from '../metrics.ts'

export interface RedisHealth {
  readonly use: string
  isHealthy(): boolean
  answerAgeMs(): number
  recordError(error: unknown): void
  stop(): void
}

export interface RedisHealthOptions {
  readonly use: string
  /** Must settle, and resolves only if Redis carried it out. */
  readonly probe: () => Promise<unknown>
  readonly onSilent: () => void
  readonly logger: Logger
  readonly events?: { readonly lost: string; readonly recovered: string }
}

const probeEveryMs = 500
/** After this silence, Redis is not used until it answers again. */
export const silentAfterMs = 3000
const maxLinesPerMinute = 10

/** Probes Redis twice a second. Logs `redis_lost` and `redis_recovered`. */
export function watchRedis({
  use,
  probe,
  onSilent,
  logger,
  events = { lost: 'redis_lost', recovered: 'redis_recovered' },
}: RedisHealthOptions): RedisHealth {
  let answeredAt = performance.now()
  let hasAnswered = false
  let hasFailed = false
  let isAsking = false
  let isStopped = false
  let lastError: unknown
  let isReportedLost = false
  let lines = 0
  let linesSince = -Infinity
  const answerAgeMs = (): number => performance.now() - answeredAt
  const isSilent = (): boolean => answerAgeMs() >= silentAfterMs

  function sendPing(): void {
    if (isAsking) return
    isAsking = true
    probe().then(
      () => {
        isAsking = false
        answeredAt = performance.now()
        hasAnswered = true
        hasFailed = false
        report()
      },
      (error: unknown) => {
        isAsking = false
        if (!hasFailed) lastError = error
      },
    )
  }

  function report(): void {
    const isLost = hasFailed || isSilent()
    if (isLost === isReportedLost || isStopped || !mayLog()) return
    isReportedLost = isLost
    if (isLost) logger.warn({ event: events.lost, use, silent_ms: Math.round(answerAgeMs()), err: lastError })
    else logger.info({ event: events.recovered, use })
  }

  function mayLog(): boolean {
    const now = performance.now()
    if (now - linesSince > 60_000) {
      linesSince = now
      lines = 0
    }
    lines += 1
    return lines <= maxLinesPerMinute
  }

  const timer = setInterval(() => {
    sendPing()
    report()
    if (isSilent()) onSilent()
  }, probeEveryMs)
  timer.unref()
  return {
    use,
    isHealthy: () => hasAnswered && !hasFailed && !isStopped && !isSilent(),
    answerAgeMs,
    recordError: (error) => {
      lastError = error
      hasFailed = true
      report()
    },
    stop: () => {
      isStopped = true
      clearInterval(timer)
    },
  }
}

export function observeRedis(registry: Registry, healths: readonly RedisHealth[]): void {
  const connected: Gauge<'use'> = new Gauge({
    name: 'postern_redis_connected',
    help: 'Whether Redis has carried out commands in the last 3 seconds (1 or 0), by use of the connection',
    labelNames: ['use'],
    registers: [registry],
    collect(): void {
      for (const { use, isHealthy } of healths) connected.set({ use }, isHealthy() ? 1 : 0)
    },
  })
  const age: Gauge<'use'> = new Gauge({
    name: 'postern_redis_answer_age_seconds',
    help: 'Time since Redis last carried out commands, by use of the connection',
    labelNames: ['use'],
    registers: [registry],
    collect(): void {
      for (const { use, answerAgeMs } of healths) age.set({ use }, answerAgeMs() / 1000)
    },
  })
}
