import type { FastifyInstance } from 'fastify'
import { Counter, Histogram, Registry, collectDefaultMetrics } from '@prometheus-io/client'

export type { Registry } from '@prometheus-io/client'

let processMetrics: Registry | undefined

export function createMetrics(service: string): Registry {
  // Nothing ends their observers of the event loop and of garbage collection, so a process has them once.
  processMetrics ??= collectProcessMetrics()
  const registry = Registry.merge([processMetrics])
  registry.setDefaultLabels({ service })
  return registry
}

function collectProcessMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

interface RequestMetrics {
  readonly requests: Counter<'route' | 'method' | 'status'>
  readonly duration: Histogram<'route' | 'method'>
}

const measured = new WeakMap<Registry, RequestMetrics>()

function requestMetrics(registry: Registry): RequestMetrics {
  const requests = new Counter({
    name: 'postern_http_requests_total',
    help: 'Requests answered, by route, method and status',
    labelNames: ['route', 'method', 'status'],
    registers: [registry],
  })
  const duration = new Histogram({
    name: 'postern_http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its answer',
    labelNames: ['route', 'method'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  })
  return { requests, duration }
}

/** By route, never by URL, tenant or key, to limit the number of series. */
export function measureRequests(app: FastifyInstance, registry: Registry): void {
  const metrics = measured.get(registry) ?? requestMetrics(registry)
  measured.set(registry, metrics)
  const { requests, duration } = metrics
  app.addHook('onResponse', async (request, reply) => {
    if (request.routeOptions.config.guard === 'open') return
    const route = request.routeOptions.url ?? 'unknown'
    requests.inc({ route, method: request.method, status: reply.statusCode })
    duration.observe({ route, method: request.method }, reply.elapsedTime / 1000)
  })
}
