import { Counter, Gauge, type Registry } from '@prometheus-io/client'

export interface DatabaseObserver {
  opened(connections: number, stats: () => PoolStats): void
  /** `kind` comes from `sqlError` of tenant-db. */
  failed(kind: string): void
}

interface PoolStats {
  readonly total: number
  readonly idle: number
  readonly waiting: number
}

interface DatabaseMetrics {
  readonly pools: Map<string, { readonly connections: number; readonly stats: () => PoolStats }>
  readonly failures: Counter<'pool' | 'kind'>
}

const measured = new WeakMap<Registry, DatabaseMetrics>()

/** `assertion` and `rls` never occur in normal operation; `late` is an expired assertion, as after slow uploads. */
const counted = ['assertion', 'late', 'rls', 'timeout', 'unavailable', 'serialization'] as const

function databaseMetrics(registry: Registry): DatabaseMetrics {
  const pools: DatabaseMetrics['pools'] = new Map()
  const failures = new Counter({
    name: 'postern_database_failures_total',
    help: 'Transactions that PostgreSQL refused or did not answer, by pool and kind',
    labelNames: ['pool', 'kind'],
    registers: [registry],
  })
  const used: Gauge<'pool'> = new Gauge({
    name: 'postern_database_connections_used',
    help: 'Connections to PostgreSQL in use, by pool',
    labelNames: ['pool'],
    registers: [registry],
    collect(): void {
      for (const [pool, { stats }] of pools) used.set({ pool }, stats().total - stats().idle)
    },
  })
  const most: Gauge<'pool'> = new Gauge({
    name: 'postern_database_connections_max',
    help: 'Connections to PostgreSQL that a pool may have',
    labelNames: ['pool'],
    registers: [registry],
    collect(): void {
      for (const [pool, { connections }] of pools) most.set({ pool }, connections)
    },
  })
  const waiting: Gauge<'pool'> = new Gauge({
    name: 'postern_database_requests_waiting',
    help: 'Transactions that wait for a connection, by pool',
    labelNames: ['pool'],
    registers: [registry],
    collect(): void {
      for (const [pool, { stats }] of pools) waiting.set({ pool }, stats().waiting)
    },
  })
  return { pools, failures }
}

export function observeDatabase(registry: Registry, pool = 'requests'): DatabaseObserver {
  const metrics = measured.get(registry) ?? databaseMetrics(registry)
  measured.set(registry, metrics)
  // Prometheus sees no increase from a missing series.
  for (const kind of counted) metrics.failures.inc({ pool, kind }, 0)
  return {
    opened: (connections, stats) => void metrics.pools.set(pool, { connections, stats }),
    failed: (kind) => {
      if (counted.some((known) => known === kind)) metrics.failures.inc({ pool, kind })
    },
  }
}
