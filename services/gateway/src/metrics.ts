import type { Registry } from '@postern/service-kit'
import { Counter, Gauge, Histogram } from 'prom-client'
import type { LookupLevel } from './authenticate/key-lookup.ts'

/** What a gateway counts. No label holds a tenant, key or URL: the number of series stays bounded. */
export interface GatewayMetrics {
  /** HOT PATH. `status` 0: the client went away. */
  request(route: string, status: number, seconds: number): void
  lookup(level: LookupLevel): void
  refusal(code: string): void
  upstreamFailure(upstream: string): void
}

const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** What was counted of one route. */
interface RouteFigures {
  /** How many took at most the time of the bucket and more than that of the one before; the last one has no limit. */
  readonly inBucket: number[]
  /** Altogether. */
  seconds: number
  readonly byStatus: Map<number, { count: number }>
}

function newFigures(): RouteFigures {
  return { inBucket: Array.from({ length: buckets.length + 1 }, () => 0), seconds: 0, byStatus: new Map() }
}

const durationName = 'postern_gateway_request_duration_seconds'
/** Never observes anything: what a histogram of this name looks like. */
const described = new Histogram({
  name: 'postern_gateway_request_duration_seconds',
  help: 'From the arrival of the head of a request to the end of its answer',
  labelNames: ['route'],
  buckets,
  registers: [],
})

/** How long requests took, made when it is read: prom-client's own histogram looks its labels up for every request. */
class RouteDurations extends Histogram<'route'> {
  readonly #routes: ReadonlyMap<string, RouteFigures>

  constructor(routes: ReadonlyMap<string, RouteFigures>) {
    super({ name: durationName, help: durationName, labelNames: ['route'], buckets, registers: [] })
    this.#routes = routes
  }

  override async get(): ReturnType<Histogram<'route'>['get']> {
    const values = [...this.#routes].flatMap(([route, figures]) => valuesOf(route, figures))
    return { ...(await described.get()), values }
  }

  /** What the registry of prom-client 15 asks a histogram for, where there is such a method, in place of `get`. */
  async getForPromString(): ReturnType<Histogram<'route'>['get']> {
    return await this.get()
  }
}

/** The series of one route (OpenMetrics: buckets count all that took at most so long). */
function valuesOf(
  route: string,
  { inBucket, seconds }: RouteFigures,
): Awaited<ReturnType<RouteDurations['get']>>['values'] {
  let count = 0
  const series = inBucket.map((inThis, at) => {
    count += inThis
    return { metricName: `${durationName}_bucket`, labels: { route, le: buckets[at] ?? '+Inf' }, value: count }
  })
  return [
    ...series,
    { metricName: `${durationName}_sum`, labels: { route }, value: seconds },
    { metricName: `${durationName}_count`, labels: { route }, value: count },
  ]
}

/** Registers the gateway's metrics. */
export function createGatewayMetrics(registry: Registry, leaseRemainingMs: () => number): GatewayMetrics {
  const routes = new Map<string, RouteFigures>()
  const requests: Counter = new Counter({
    name: 'postern_gateway_requests_total',
    help: 'Requests answered, by route of the route table and status; status 0 is a client that went away',
    labelNames: ['route', 'status'],
    registers: [registry],
    collect(): void {
      requests.reset()
      for (const [route, { byStatus }] of routes) {
        for (const [status, { count }] of byStatus) requests.inc({ route, status }, count)
      }
    },
  })
  registry.registerMetric(new RouteDurations(routes))
  const lookups = new Counter({
    name: 'postern_gateway_key_lookups_total',
    help: 'Where keys were found that were not taken from memory in the same tick',
    labelNames: ['level'],
    registers: [registry],
  })
  const refusals = new Counter({
    name: 'postern_gateway_refusals_total',
    help: 'Requests that the gateway itself refused, by problem code',
    labelNames: ['code'],
    registers: [registry],
  })
  const failures = new Counter({
    name: 'postern_gateway_upstream_failures_total',
    help: 'Exchanges with a service that failed or broke off',
    labelNames: ['upstream'],
    registers: [registry],
  })
  const lease: Gauge = new Gauge({
    name: 'postern_gateway_lease_remaining_seconds',
    help: 'Time until the lease ends without a renewal; 0 or less: every key is looked up for every request',
    registers: [registry],
    collect(): void {
      lease.set(Math.max(-3600, leaseRemainingMs() / 1000))
    },
  })

  return {
    request: (route, status, seconds) => {
      let figures = routes.get(route)
      if (figures === undefined) routes.set(route, (figures = newFigures()))
      figures.seconds += seconds
      let bucket = 0
      while (bucket < buckets.length && seconds > (buckets[bucket] ?? 0)) bucket += 1
      figures.inBucket[bucket] = (figures.inBucket[bucket] ?? 0) + 1
      let counted = figures.byStatus.get(status)
      if (counted === undefined) figures.byStatus.set(status, (counted = { count: 0 }))
      counted.count += 1
    },
    lookup: (level) => lookups.inc({ level }),
    refusal: (code) => refusals.inc({ code }),
    upstreamFailure: (upstream) => failures.inc({ upstream }),
  }
}
