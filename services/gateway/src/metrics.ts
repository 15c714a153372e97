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

/** Registers the gateway's metrics. */
export function createGatewayMetrics(registry: Registry, leaseRemainingMs: () => number): GatewayMetrics {
  const requests = new Counter({
    name: 'postern_gateway_requests_total',
    help: 'Requests answered, by route of the route table and status; status 0 is a client that went away',
    labelNames: ['route', 'status'],
    registers: [registry],
  })
  const duration = new Histogram({
    name: 'postern_gateway_request_duration_seconds',
    help: 'From the arrival of the head of a request to the end of its answer',
    labelNames: ['route'],
    buckets,
    registers: [registry],
  })
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
  // Children are found by two short strings, not by hashing labels again for every request.
  const counted = new Map<string, Map<number, Counter.Internal>>()
  const timed = new Map<string, Histogram.Internal<'route'>>()

  return {
    request: (route, status, seconds) => {
      let byStatus = counted.get(route)
      if (byStatus === undefined) counted.set(route, (byStatus = new Map()))
      let child = byStatus.get(status)
      if (child === undefined) byStatus.set(status, (child = requests.labels(route, String(status))))
      child.inc()
      let timer = timed.get(route)
      if (timer === undefined) timed.set(route, (timer = duration.labels(route)))
      timer.observe(seconds)
    },
    lookup: (level) => lookups.inc({ level }),
    refusal: (code) => refusals.inc({ code }),
    upstreamFailure: (upstream) => failures.inc({ upstream }),
  }
}
