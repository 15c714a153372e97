import type { FastifyInstance } from 'fastify'
import type { Registry } from './metrics.ts'

const readyTimeoutMs = 2_000

export interface Health {
  /** Rejects if a request would fail now. */
  readonly ready: () => Promise<void>
  readonly degraded?: (() => readonly string[]) | undefined
  readonly isDraining: () => boolean
  /** All services must share one database. */
  readonly databaseId?: (() => Promise<string | undefined>) | undefined
  readonly metrics: Registry
}

/** Needs no signature and contains no tenant data. */
export function healthRoutes(app: FastifyInstance, { ready, degraded, databaseId, isDraining, metrics }: Health): void {
  const open = { config: { guard: 'open' } } as const
  app.get('/internal/health/live', open, () => ({ status: 'ok' }))
  app.get('/internal/health/ready', open, async (_request, reply) => {
    if (isDraining()) return await reply.code(503).send({ status: 'draining' })
    try {
      const [database] = await withTimeout(readyTimeoutMs, Promise.all([databaseId?.(), ready()]))
      const parts = degraded?.() ?? []
      return {
        status: 'ok',
        ...(database === undefined ? {} : { database }),
        ...(parts.length === 0 ? {} : { degraded: parts }),
      }
    } catch (error) {
      return await reply
        .code(503)
        .send({ status: 'unavailable', reason: error instanceof Error ? error.name : 'unknown' })
    }
  })
  app.get('/internal/metrics', open, async (_request, reply) => {
    reply.type(metrics.contentType)
    return await metrics.metrics()
  })
}

async function withTimeout<T>(limitMs: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('not ready in time')), limitMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
