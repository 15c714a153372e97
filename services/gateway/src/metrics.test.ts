import type { RedisHealth } from '@postern/service-kit/redis'
import { Registry } from '@prometheus-io/client'
import { expect, test } from 'vitest'
import { createGatewayMetrics, observeGateway } from './metrics.ts'

function health(use: string, isHealthy: boolean): RedisHealth {
  return {
    use,
    isHealthy: () => isHealthy,
    answerAgeMs: () => 0,
    recordError: () => undefined,
    stop: () => undefined,
  }
}

const gauges = {
  leaseRemainingMs: () => 0,
  redis: [health('commands', true), health('subscription', false)],
  gateways: () => 3,
  limitShare: () => 1,
  keysInMemory: () => 3,
}

/** Lines of one metric, without those that explain it. */
async function seriesOf(registry: Registry, name: string): Promise<string[]> {
  const text = await registry.getSingleMetricAsString(name)
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

function zeros(route: string): string[] {
  return [500, 502, 503, 504].map((status) => `postern_gateway_requests_total{route="${route}",status="${status}"} 0`)
}

test('requests are counted by route and status, independent of scrapes, and failures of a route start at zero', async () => {
  const registry = new Registry()
  const metrics = createGatewayMetrics(registry)
  for (const status of [200, 200, 404]) metrics.request('findings.list', status, 0.01, true)
  metrics.request('none', 0, 0.01, false)
  const expected = [
    ...zeros('findings.list'),
    'postern_gateway_requests_total{route="findings.list",status="200"} 2',
    'postern_gateway_requests_total{route="findings.list",status="404"} 1',
    ...zeros('none'),
    'postern_gateway_requests_total{route="none",status="0"} 1',
  ]
  expect(await seriesOf(registry, 'postern_gateway_requests_total')).toEqual(expected)
  expect(await seriesOf(registry, 'postern_gateway_requests_total')).toEqual(expected)
})

test('forwarded requests are counted by service, without those that the gateway refused', async () => {
  const registry = new Registry()
  const metrics = createGatewayMetrics(registry)
  metrics.request('findings.list', 200, 0.2, true)
  metrics.request('findings.create', 503, 0.002, true)
  metrics.request('evidence.read-upload', 0, 0.002, true)
  metrics.request('findings.list', 429, 0.001, false)
  metrics.request('none', 404, 0.001, false)
  const counted = await seriesOf(registry, 'postern_gateway_upstream_requests_total')
  expect(counted.filter((line) => !line.endsWith(' 0')).toSorted()).toEqual([
    'postern_gateway_upstream_requests_total{upstream="evidence",status="0"} 1',
    'postern_gateway_upstream_requests_total{upstream="findings",status="200"} 1',
    'postern_gateway_upstream_requests_total{upstream="findings",status="503"} 1',
  ])
  const durations = await seriesOf(registry, 'postern_gateway_upstream_duration_seconds')
  expect(await seriesOf(registry, 'postern_gateway_request_duration_seconds')).toContain(
    'postern_gateway_request_duration_seconds_count{route="findings.list"} 2',
  )
  expect(durations).toContain('postern_gateway_upstream_duration_seconds_count{upstream="findings"} 2')
  expect(durations).toContain('postern_gateway_upstream_duration_seconds_sum{upstream="findings"} 0.202')
  expect(durations).toContain('postern_gateway_upstream_duration_seconds_bucket{le="0.1",upstream="findings"} 1')
})

test('key look-ups are counted by where they ended, independent of scrapes', async () => {
  const registry = new Registry()
  const metrics = createGatewayMetrics(registry)
  metrics.found.inMemory += 3
  metrics.lookup('redis')
  for (const hits of [3, 3, 4]) {
    metrics.found.inMemory = hits
    expect(await seriesOf(registry, 'postern_gateway_key_lookups_total')).toEqual(
      expect.arrayContaining([
        `postern_gateway_key_lookups_total{level="memory"} ${hits}`,
        'postern_gateway_key_lookups_total{level="redis"} 1',
        'postern_gateway_key_lookups_total{level="unavailable"} 0',
      ]),
    )
  }
})

test('invalid data in Redis and replaced logs are counted, from zero on', async () => {
  const registry = new Registry()
  const metrics = createGatewayMetrics(registry)
  const told = async () => [
    ...(await seriesOf(registry, 'postern_gateway_cache_refused_total')),
    ...(await seriesOf(registry, 'postern_gateway_log_resets_total')),
  ]
  const records = 'postern_gateway_cache_refused_total{what="record"} 0'
  const announcements = 'postern_gateway_cache_refused_total{what="announcement"}'
  expect(await told()).toEqual([records, `${announcements} 0`, 'postern_gateway_log_resets_total 0'])
  metrics.cacheRefused('announcement')
  metrics.logReset()
  expect(await told()).toEqual([records, `${announcements} 1`, 'postern_gateway_log_resets_total 1'])
})

test('the state of Redis is shown by its purpose', async () => {
  const registry = new Registry()
  observeGateway(registry, gauges)
  expect(await seriesOf(registry, 'postern_gateway_keys_in_memory')).toEqual(['postern_gateway_keys_in_memory 3'])
  expect(await seriesOf(registry, 'postern_gateway_redis_connected')).toEqual([
    'postern_gateway_redis_connected{use="commands"} 1',
    'postern_gateway_redis_connected{use="subscription"} 0',
  ])
})
