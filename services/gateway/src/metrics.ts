import { routeTable, upstreams } from '@postern/contracts'
import type { Registry } from '@postern/service-kit'
import { type RedisHealth, observeRedis } from '@postern/service-kit/redis'
import { Counter, Gauge, Histogram } from '@prometheus-io/client'
import type { LookupLevel } from './authenticate/key-lookup.ts'
import type { Refused } from './authenticate/redis-cache.ts'

/** No label contains a tenant, key or URL, to limit the number of series. */
export interface GatewayMetrics {
  /** HOT PATH. `status` 0: the client disconnected. `isForwarded`: its service received the request. */
  request(route: string, status: number, seconds: number, isForwarded: boolean): void
  lookup(level: Exclude<LookupLevel, 'memory'>): void
  /** HOT PATH. */
  readonly found: { inMemory: number }
  refusal(code: string): void
  upstreamFailure(upstream: string): void
  upstreamPoolExhausted(upstream: string): void
  cacheRefused(what: Refused): void
  logReset(): void
}

export interface GatewayGauges {
  readonly leaseRemainingMs: () => number
  readonly redis: readonly RedisHealth[]
  readonly gateways: () => number | undefined
  readonly limitShare: () => number
  readonly keysInMemory: () => number
}

const upstreamOfRoute = new Map(routeTable.map(({ id, upstream }) => [id, upstream]))
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

export function createGatewayMetrics(registry: Registry): GatewayMetrics {
  const { lookup, found } = countLookups(registry)
  const request = countRequests(registry)
  const refusals = new Counter({
    name: 'postern_gateway_refusals_total',
    help: 'Requests that the gateway itself refused or ended, by problem code',
    labelNames: ['code'],
    registers: [registry],
  })
  const failures = new Counter({
    name: 'postern_gateway_upstream_failures_total',
    help: 'Exchanges with a service that failed or broke off',
    labelNames: ['upstream'],
    registers: [registry],
  })
  const poolExhausted = new Counter({
    name: 'postern_gateway_upstream_pool_exhausted_total',
    help: 'Requests that were not sent because no connection to their service became free in time, or too many waited',
    labelNames: ['upstream'],
    registers: [registry],
  })
  // A rate sees the first failure only if its series existed before.
  for (const upstream of upstreams) {
    failures.inc({ upstream }, 0)
    poolExhausted.inc({ upstream }, 0)
  }
  const refusedFromRedis = new Counter({
    name: 'postern_gateway_cache_refused_total',
    help: 'Key records and announcements in Redis that were ignored because their MAC is not valid',
    labelNames: ['what'],
    registers: [registry],
  })
  for (const what of ['record', 'announcement']) refusedFromRedis.inc({ what }, 0)
  const resets = new Counter({
    name: 'postern_gateway_log_resets_total',
    help: 'Resets of the revocation log, for example after PostgreSQL was restored',
    registers: [registry],
  })
  return {
    request,
    lookup,
    found,
    refusal: (code) => refusals.inc({ code }),
    upstreamFailure: (upstream) => failures.inc({ upstream }),
    upstreamPoolExhausted: (upstream) => poolExhausted.inc({ upstream }),
    cacheRefused: (what) => refusedFromRedis.inc({ what }),
    logReset: () => resets.inc(),
  }
}

/** Adds gauges that are read at each scrape. */
export function observeGateway(registry: Registry, gauges: GatewayGauges): void {
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
    help: 'Keys in memory, which need no lookup',
    registers: [registry],
    collect(): void {
      keys.set(gauges.keysInMemory())
    },
  })
  observeRedis(registry, gauges.redis)
  const redis: Gauge<'use'> = new Gauge({
    name: 'postern_gateway_redis_connected',
    help: 'The same as postern_redis_connected, only for gateways',
    labelNames: ['use'],
    registers: [registry],
    collect(): void {
      for (const { use, isHealthy } of gauges.redis) redis.set({ use }, isHealthy() ? 1 : 0)
    },
  })
  const gateways: Gauge = new Gauge({
    name: 'postern_gateway_leases_held',
    help: 'Gateways that hold a lease, as the keys service last reported; 0: not reported yet',
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
}

const failureStatuses = [500, 502, 503, 504]

function countRequests(registry: Registry): GatewayMetrics['request'] {
  const registers = [registry]
  const requests = new Counter({
    name: 'postern_gateway_requests_total',
    help: 'Requests answered, by route of the route table and status; status 0: the client disconnected',
    labelNames: ['route', 'status'],
    registers,
  })
  const durations = new Histogram({
    name: 'postern_gateway_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer',
    labelNames: ['route'],
    buckets,
    registers,
  })
  const upstreamRequests = new Counter({
    name: 'postern_gateway_upstream_requests_total',
    help: 'Requests forwarded to a service, by service and the status that the client received',
    labelNames: ['upstream', 'status'],
    registers,
  })
  const upstreamDurations = new Histogram({
    name: 'postern_gateway_upstream_duration_seconds',
    help: 'Time from the head of a forwarded request to the end of its answer, by service',
    labelNames: ['upstream'],
    buckets,
    registers,
  })
  const known = new Set<string>()
  for (const upstream of upstreams) for (const status of failureStatuses) upstreamRequests.inc({ upstream, status }, 0)

  return (route, status, seconds, isForwarded) => {
    if (!known.has(route)) {
      known.add(route)
      for (const failure of failureStatuses) requests.inc({ route, status: failure }, 0)
    }
    requests.inc({ route, status })
    durations.observe({ route }, seconds)
    if (!isForwarded) return
    const upstream = upstreamOfRoute.get(route) ?? 'none'
    upstreamRequests.inc({ upstream, status })
    upstreamDurations.observe({ upstream }, seconds)
  }
}

function countLookups(registry: Registry): Pick<GatewayMetrics, 'lookup' | 'found'> {
  const found = { inMemory: 0 }
  let reported = 0
  const lookups: Counter<'level'> = new Counter({
    name: 'postern_gateway_key_lookups_total',
    help: 'Look-ups of the keys in requests, by where they were found',
    labelNames: ['level'],
    registers: [registry],
    collect(): void {
      lookups.inc({ level: 'memory' }, found.inMemory - reported)
      reported = found.inMemory
    },
  })
  for (const level of ['redis', 'keys', 'unknown', 'unavailable']) lookups.inc({ level }, 0)
  return { lookup: (level) => lookups.inc({ level }), found }
}
