import { routeTable, upstreams } from '@postern/contracts'
import type { Registry } from '@postern/service-kit'
import { type RedisHealth, observeRedis } from '@postern/service-kit/redis'
import { Counter, Gauge, Histogram } from 'prom-client'
import type { LookupLevel } from './authenticate/key-lookup.ts'
import type { Refused } from './authenticate/redis-cache.ts'

/** What a gateway counts. No label holds a tenant, key or URL: the number of series stays bounded. */
export interface GatewayMetrics {
  /** HOT PATH. `status` 0: the client went away. `isForwarded`: it was given to the service of its route. */
  request(route: string, status: number, seconds: number, isForwarded: boolean): void
  lookup(level: Exclude<LookupLevel, 'memory'>): void
  /** HOT PATH: counted up by who finds keys in memory, and read when it is asked for. */
  readonly found: { inMemory: number }
  refusal(code: string): void
  upstreamFailure(upstream: string): void
  /** A request that was not given to its service, for want of a connection. */
  upstreamCrowded(upstream: string): void
  cacheRefused(what: Refused): void
  logReset(): void
}

/** What is asked when somebody reads the metrics. */
export interface GatewayGauges {
  readonly leaseRemainingMs: () => number
  readonly redis: readonly RedisHealth[]
  /** Gateways that hold a lease; undefined: nobody has said. */
  readonly gateways: () => number | undefined
  readonly limitShare: () => number
  readonly keysInMemory: () => number
}

const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** What was counted of one route, or of one service. */
interface Figures {
  /** How many took at most the time of the bucket and more than that of the one before; the last one has no limit. */
  readonly inBucket: number[]
  /** Altogether. */
  seconds: number
  readonly byStatus: Map<number, { count: number }>
}

type FiguresByName = Map<string, Figures>

function newFigures(): Figures {
  return { inBucket: Array.from({ length: buckets.length + 1 }, () => 0), seconds: 0, byStatus: new Map() }
}

function figuresOf(all: FiguresByName, name: string): Figures {
  let figures = all.get(name)
  if (figures === undefined) all.set(name, (figures = newFigures()))
  return figures
}

/** Adds figures up under other names. */
function summed(parts: readonly FiguresByName[], nameOf: (name: string) => string): FiguresByName {
  const sums: FiguresByName = new Map()
  for (const [name, { inBucket, seconds, byStatus }] of parts.flatMap((part) => [...part])) {
    const sum = figuresOf(sums, nameOf(name))
    sum.seconds += seconds
    for (const [at, count] of inBucket.entries()) sum.inBucket[at] = (sum.inBucket[at] ?? 0) + count
    for (const [status, { count }] of byStatus) {
      sum.byStatus.set(status, { count: (sum.byStatus.get(status)?.count ?? 0) + count })
    }
  }
  return sums
}

const upstreamOfRoute = new Map(routeTable.map(({ id, upstream }) => [id, upstream]))

/** Never observe anything: what histograms of these names look like. */
const ofRoutes = new Histogram({
  name: 'postern_gateway_request_duration_seconds',
  help: 'From the arrival of the head of a request to the end of its answer',
  labelNames: ['route'],
  buckets,
  registers: [],
})
const ofUpstreams = new Histogram({
  name: 'postern_gateway_upstream_duration_seconds',
  help: 'The same, of the requests that were given to a service, by service',
  labelNames: ['upstream'],
  buckets,
  registers: [],
})

/** How long requests took, made when it is read: prom-client's own histogram looks its labels up for every request. */
class Durations extends Histogram {
  readonly #name: string
  readonly #label: string
  readonly #described: Pick<Histogram, 'get'>
  readonly #read: () => FiguresByName

  constructor(name: string, label: string, described: Pick<Histogram, 'get'>, read: () => FiguresByName) {
    super({ name, help: name, labelNames: [label], buckets, registers: [] })
    this.#name = name
    this.#label = label
    this.#described = described
    this.#read = read
  }

  override async get(): ReturnType<Histogram['get']> {
    const values = [...this.#read()].flatMap(([value, figures]) =>
      valuesOf(this.#name, { [this.#label]: value }, figures),
    )
    return { ...(await this.#described.get()), values }
  }

  /** What the registry of prom-client 15 asks a histogram for, where there is such a method, in place of `get`. */
  async getForPromString(): ReturnType<Histogram['get']> {
    return await this.get()
  }
}

/** The series of one label (OpenMetrics: buckets count all that took at most so long). */
function valuesOf(
  name: string,
  labels: Readonly<Record<string, string>>,
  { inBucket, seconds }: Figures,
): Awaited<ReturnType<Histogram['get']>>['values'] {
  let count = 0
  const series = inBucket.map((inThis, at) => {
    count += inThis
    return { metricName: `${name}_bucket`, labels: { ...labels, le: buckets[at] ?? '+Inf' }, value: count }
  })
  return [
    ...series,
    { metricName: `${name}_sum`, labels: { ...labels }, value: seconds },
    { metricName: `${name}_count`, labels: { ...labels }, value: count },
  ]
}

/** Registers the gateway's metrics. */
export function createGatewayMetrics(registry: Registry, gauges: GatewayGauges): GatewayMetrics {
  const { lookup, found } = countLookups(registry)
  const request = countRequests(registry)
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
  const crowded = new Counter({
    name: 'postern_gateway_upstream_crowded_total',
    help: 'Requests that no connection to their service was free for, in time or because too many waited; it was not asked',
    labelNames: ['upstream'],
    registers: [registry],
  })
  // Known before the first: from nothing to one there would be no increase to see.
  for (const upstream of upstreams) {
    failures.inc({ upstream }, 0)
    crowded.inc({ upstream }, 0)
  }
  const refusedOfRedis = new Counter({
    name: 'postern_gateway_cache_refused_total',
    help: 'Records of keys and announcements of changes in Redis that our MAC does not cover, which were not believed',
    labelNames: ['what'],
    registers: [registry],
  })
  for (const what of ['record', 'announcement']) refusedOfRedis.inc({ what }, 0)
  const resets = new Counter({
    name: 'postern_gateway_log_resets_total',
    help: 'Times that the keys service knew less of changes than this gateway had seen: PostgreSQL was restored',
    registers: [registry],
  })
  const lease: Gauge = new Gauge({
    name: 'postern_gateway_lease_remaining_seconds',
    help: 'Time until the lease ends without a renewal; 0 or less: every key is looked up for every request',
    registers: [registry],
    collect(): void {
      lease.set(Math.max(-3600, gauges.leaseRemainingMs() / 1000))
    },
  })
  const keys: Gauge = new Gauge({
    name: 'postern_gateway_keys_in_memory',
    help: 'Keys that need no look-up; those that nobody uses any more go as others come',
    registers: [registry],
    collect(): void {
      keys.set(gauges.keysInMemory())
    },
  })
  observeRedis(registry, gauges.redis)
  const redis: Gauge = new Gauge({
    name: 'postern_gateway_redis_connected',
    help: 'The same as postern_redis_connected, of gateways',
    labelNames: ['use'],
    registers: [registry],
    collect(): void {
      for (const { use, isHealthy } of gauges.redis) redis.set({ use }, isHealthy() ? 1 : 0)
    },
  })
  const gateways: Gauge = new Gauge({
    name: 'postern_gateway_leases_held',
    help: 'Gateways that hold a lease, as the keys service last told this one; 0: it has not been told',
    registers: [registry],
    collect(): void {
      gateways.set(gauges.gateways() ?? 0)
    },
  })
  const share: Gauge = new Gauge({
    name: 'postern_gateway_rate_limit_share_ratio',
    help: 'Part of each limit that this gateway enforces: 1 while Redis counts for all gateways, else 1 divided by the gateways',
    registers: [registry],
    collect(): void {
      share.set(gauges.limitShare())
    },
  })
  return {
    request,
    lookup,
    found,
    refusal: (code) => refusals.inc({ code }),
    upstreamFailure: (upstream) => failures.inc({ upstream }),
    upstreamCrowded: (upstream) => crowded.inc({ upstream }),
    cacheRefused: (what) => refusedOfRedis.inc({ what }),
    logReset: () => resets.inc(),
  }
}

const failureStatuses = [500, 502, 503, 504]

/** Rate, errors and duration by route and by service, out of one note a request. */
function countRequests(registry: Registry): GatewayMetrics['request'] {
  const forwarded: FiguresByName = new Map()
  const answered: FiguresByName = new Map()
  const byRoute = (): FiguresByName => summed([forwarded, answered], (route) => route)
  const byUpstream = (): FiguresByName => summed([forwarded], (route) => upstreamOfRoute.get(route) ?? 'none')

  function show(counter: Counter, label: string, figures: FiguresByName): void {
    counter.reset()
    for (const [name, { byStatus }] of figures) {
      // Known with the first request of a route: its first failure would else be no increase, and one in each of many series none at all.
      for (const status of failureStatuses) counter.inc({ [label]: name, status }, 0)
      for (const [status, { count }] of byStatus) counter.inc({ [label]: name, status }, count)
    }
  }
  const requests: Counter = new Counter({
    name: 'postern_gateway_requests_total',
    help: 'Requests answered, by route of the route table and status; status 0 is a client that went away',
    labelNames: ['route', 'status'],
    registers: [registry],
    collect: () => show(requests, 'route', byRoute()),
  })
  const upstreamRequests: Counter = new Counter({
    name: 'postern_gateway_upstream_requests_total',
    help: 'Requests that were given to a service, by service and the status that the client was answered',
    labelNames: ['upstream', 'status'],
    registers: [registry],
    collect: () => show(upstreamRequests, 'upstream', byUpstream()),
  })
  registry.registerMetric(new Durations('postern_gateway_request_duration_seconds', 'route', ofRoutes, byRoute))
  registry.registerMetric(
    new Durations('postern_gateway_upstream_duration_seconds', 'upstream', ofUpstreams, byUpstream),
  )

  return (route, status, seconds, isForwarded) => {
    const figures = figuresOf(isForwarded ? forwarded : answered, route)
    figures.seconds += seconds
    let bucket = 0
    while (bucket < buckets.length && seconds > (buckets[bucket] ?? 0)) bucket += 1
    figures.inBucket[bucket] = (figures.inBucket[bucket] ?? 0) + 1
    let counted = figures.byStatus.get(status)
    if (counted === undefined) figures.byStatus.set(status, (counted = { count: 0 }))
    counted.count += 1
  }
}

function countLookups(registry: Registry): Pick<GatewayMetrics, 'lookup' | 'found'> {
  const found = { inMemory: 0 }
  let shown = 0
  const lookups: Counter = new Counter({
    name: 'postern_gateway_key_lookups_total',
    help: 'Keys that requests came with, by where they were found',
    labelNames: ['level'],
    registers: [registry],
    collect(): void {
      lookups.inc({ level: 'memory' }, found.inMemory - shown)
      shown = found.inMemory
    },
  })
  for (const level of ['redis', 'keys', 'unknown', 'unavailable']) lookups.inc({ level }, 0)
  return { lookup: (level) => lookups.inc({ level }), found }
}
