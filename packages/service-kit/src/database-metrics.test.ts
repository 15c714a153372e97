import { expect, test } from 'vitest'
import { observeDatabase } from './database-metrics.ts'
import { createMetrics } from './metrics.ts'

test('metrics show the state of a process’s pools and the rejections of PostgreSQL', async () => {
  const metrics = createMetrics('findings')
  const requests = observeDatabase(metrics)
  const workers = observeDatabase(metrics, 'workers')
  requests.opened(10, () => ({ total: 7, idle: 2, waiting: 3 }))
  workers.opened(4, () => ({ total: 1, idle: 1, waiting: 0 }))
  workers.failed('rls')
  requests.failed('assertion')
  requests.failed('assertion')
  requests.failed('late')
  // A unique constraint that was met is between the caller and the data.
  requests.failed('unique')
  const lines = (await metrics.metrics()).split('\n').filter((line) => line.startsWith('postern_database_'))
  const rest = 'service="findings"} '
  expect(lines).toEqual(
    expect.arrayContaining([
      `postern_database_connections_used{pool="requests",${rest}5`,
      `postern_database_connections_used{pool="workers",${rest}0`,
      `postern_database_connections_max{pool="workers",${rest}4`,
      `postern_database_requests_waiting{pool="requests",${rest}3`,
      `postern_database_failures_total{pool="requests",kind="assertion",${rest}2`,
      `postern_database_failures_total{pool="requests",kind="late",${rest}1`,
      `postern_database_failures_total{pool="workers",kind="rls",${rest}1`,
      `postern_database_failures_total{pool="workers",kind="assertion",${rest}0`,
    ]),
  )
  expect(lines.join('\n')).not.toContain('unique')
})
