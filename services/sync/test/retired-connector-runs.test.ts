import { type Run, runSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { useRuns, csvOf } from './run-support.ts'
import { admin, push, row } from './support.ts'

const { parts, create, runCsv } = useRuns()

const call = async (tenant: Principal, path: string, headers = {}): Promise<CallAnswer> =>
  await parts().caller.call(tenant, 'GET', path, { headers })
const runsOf = async (tenant: Principal, key: string): Promise<[CallAnswer, readonly Run[]]> => {
  const answer = await call(tenant, `/api/v1/sync-runs?connector=${key}&count=true`)
  return [answer, runSchema.array().parse(answer.json)]
}
const retire = async (tenant: Principal, id: string): Promise<number> =>
  (await parts().caller.call(tenant, 'DELETE', `/api/v1/connectors/${id}`)).status

describe('runs of a retired connector', () => {
  test('are found by its former key, with those of the connector that has it now', async () => {
    const tenant = admin()
    const first = await create(tenant, { key: 'erp' })
    const old = await runCsv(tenant, first, csvOf(2))
    const other = await runCsv(tenant, await create(tenant), csvOf(1))
    expect(await retire(tenant, first.id)).toBe(204)
    const ofRetired = await runsOf(tenant, 'erp')
    expect(ofRetired[1]).toMatchObject([{ id: old.id, connector_id: first.id, connector_key: 'erp' }])
    expect(ofRetired[0].headers['x-total-count']).toBe('1')

    const second = await create(tenant, { key: 'erp' })
    const next = await runCsv(tenant, second, csvOf(2))
    const ofBoth = await runsOf(tenant, 'erp')
    expect(ofBoth[1].map(({ id, connector_id: connector }) => [id, connector])).toEqual([
      [next.id, second.id],
      [old.id, first.id],
    ])
    expect(ofBoth[0].headers['x-total-count']).toBe('2')
    const all = await call(tenant, '/api/v1/sync-runs')
    expect(
      runSchema
        .array()
        .parse(all.json)
        .map(({ connector_key: key }) => key),
    ).toEqual(['erp', other.connector_key, 'erp'])
  })

  test('stay in the baseline when it is retired, and are read again if the previous release has retired it', async () => {
    const tenant = admin()
    const [connector, another] = [await create(tenant), await create(tenant)]
    const [run, second] = [await runCsv(tenant, connector, csvOf(1)), await runCsv(tenant, another, csvOf(1))]
    const path = `/api/v1/sync-runs/${run.id}`
    const before = await call(tenant, path)
    const known = { 'if-none-match': before.headers['etag'] ?? '' }
    expect((await call(tenant, path, known)).status).toBe(304)
    await retire(tenant, connector.id)
    expect((await call(tenant, path, known)).status).toBe(304)
    expect((await call(tenant, path)).text).toBe(before.text)

    const otherPath = `/api/v1/sync-runs/${second.id}`
    const tag = (await call(tenant, otherPath)).headers['etag'] ?? ''
    const asBefore = `update sync.connector set retired_at = now(), key = 'retired-' || id where id = $1`
    await parts().world.rows(asBefore, [another.id])
    const after = await call(tenant, otherPath, { 'if-none-match': tag })
    expect([after.status, runSchema.parse(after.json).connector_key]).toEqual([200, `retired-${another.id}`])
  })
})

test('a push that has ended is not mistaken for one in progress', async () => {
  const tenant = admin()
  await push(parts().caller, tenant, [row()])
  const [run] = runSchema.array().parse((await call(tenant, '/api/v1/sync-runs')).json)
  const stored = async () => (await parts().world.rows('select revision from sync.run where id = $1', [run?.id]))[0]
  const path = `/api/v1/sync-runs/${run?.id}`
  expect(await stored()).toEqual({ revision: 2 })
  const text = `update sync.run set status = 'running', finished_at = null, started_at = now() - interval '6 minutes' where id = $1`
  await parts().world.rows(text, [run?.id])
  const underWay = await call(tenant, path)
  expect(runSchema.parse(underWay.json).status).toBe('applying')
  await push(parts().caller, tenant, [row()])
  const after = await call(tenant, path, { 'if-none-match': underWay.headers['etag'] ?? '' })
  expect([after.status, runSchema.parse(after.json).status]).toEqual([200, 'failed'])
  expect(await stored()).toEqual({ revision: 3 })
})
