import { type Connector, connectorSchema, runSchema } from '@postern/contracts'
import { expect, test, vi } from 'vitest'
import { path, useConnectors } from './connector-support.ts'
import { admin } from './support.ts'

const { world, caller, create } = useConnectors()

test('a due schedule creates one run and sets the next time, except for a paused connector', async () => {
  const tenant = admin()
  const schedule = { cron: '30 2 * * *', time_zone: 'Europe/Berlin' }
  const { connector } = await create(tenant, { schedule })
  expect(Date.parse(connector.next_run_at ?? '')).toBeGreaterThan(Date.now())
  const due = '2026-01-01T01:30:00.000Z'
  await world().rows('update sync.connector set next_run_at = $2 where id = $1', [connector.id, due])
  await world().rows(
    `update queue.job set start_after = now(), data = jsonb_set(data, '{due}', to_jsonb($2::text))
     where data ->> 'id' = $1 and name = 'sync-schedule'`,
    [connector.id, due],
  )
  const runsOf = async () => {
    const { json } = await caller().call(tenant, 'GET', `/api/v1/sync-runs?connector=${connector.key}`)
    return runSchema.array().parse(json)
  }
  const [run] = await vi.waitFor(
    async () => {
      const runs = await runsOf()
      expect(runs).toHaveLength(1)
      return runs
    },
    { timeout: 60_000, interval: 200 },
  )
  expect(run).toMatchObject({ trigger: 'schedule', mode: 'apply', created_by: { type: 'connector' } })
  const now = await caller().call(tenant, 'GET', `${path}/${connector.id}`)
  const after: Connector = connectorSchema.parse(now.json)
  expect(Date.parse(after.next_run_at ?? '')).toBeGreaterThan(Date.now())
  const paused = await caller().call(tenant, 'PATCH', `${path}/${connector.id}`, {
    body: { state: 'paused' },
    headers: { 'if-match': now.headers['etag'] ?? '' },
  })
  expect([paused.status, connectorSchema.parse(paused.json).next_run_at]).toEqual([200, null])
  expect((await caller().call(tenant, 'POST', `${path}/${connector.id}/runs`)).status).toBe(409)
})

test('a schedule continues, however often its job has failed', async () => {
  const tenant = admin()
  const { connector } = await create(tenant, { schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' } })
  const setJob = async (due: string, attempts: number) =>
    await world().rows(
      `update queue.job set start_after = now(), retry_count = $3, data = jsonb_set(data, '{due}', to_jsonb($2::text))
       where data ->> 'id' = $1 and name = 'sync-schedule'`,
      [connector.id, due, attempts],
    )
  await setJob('no time', 500)
  await vi.waitFor(
    async () => {
      const text = `select state::text, keep_until > now() + interval '300 days' as "isExact" from queue.job
        where data ->> 'id' = $1 and name = 'sync-schedule'`
      expect(await world().rows(text, [connector.id])).toEqual([{ state: 'retry', isExact: true }])
    },
    { timeout: 60_000, interval: 200 },
  )
  const due = '2026-01-01T01:30:00.000Z'
  await world().rows('update sync.connector set next_run_at = $2 where id = $1', [connector.id, due])
  await setJob(due, 501)
  await vi.waitFor(
    async () => {
      const { json } = await caller().call(tenant, 'GET', `/api/v1/sync-runs?connector=${connector.key}`)
      expect(json).toHaveLength(1)
    },
    { timeout: 60_000, interval: 200 },
  )
})
