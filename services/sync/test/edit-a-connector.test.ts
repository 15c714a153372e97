import { connectorSchema } from '@postern/contracts'
import type { CallAnswer, Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { csvOf, useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, work, create, start, now, runCsv, decide } = useRuns()

const pathOf = ({ id }: { readonly id: string }) => `/api/v1/connectors/${id}`
const read = async (tenant: Principal, path: string, headers = {}): Promise<CallAnswer> =>
  await parts().caller.call(tenant, 'GET', path, { headers })
const change = async (tenant: Principal, path: string, tag: string, body: object = { name: 'Renamed' }) =>
  (await parts().caller.call(tenant, 'PATCH', path, { body, headers: { 'if-match': tag } })).status
const tagOf = ({ headers }: CallAnswer): string => headers['etag'] ?? ''

describe('somebody who edits a connector', () => {
  test('is rejected if somebody else has changed it since, but not after a run', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const path = pathOf(connector)
    const before = tagOf(await read(tenant, path))
    await runCsv(tenant, connector, csvOf(1))
    expect(connectorSchema.parse((await read(tenant, path)).json).last_run_at).not.toBeNull()
    expect(await change(tenant, path, before)).toBe(200)
    expect(await change(tenant, path, before)).toBe(412)
    const after = tagOf(await read(tenant, path))
    expect(await change(tenant, path, `W/${after}`)).toBe(412)
    expect(await change(tenant, path, after)).toBe(200)
  })

  test('may have read it from a service of the previous release', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const tag = `"${connector.id}.${connector.version}.active.2026-11-26T10:00:00.000Z."`
    expect(await change(tenant, pathOf(connector), tag)).toBe(200)
    expect(await change(tenant, pathOf(connector), tag)).toBe(412)
  })
})

test('a conditional read returns a connector again after a run has changed it', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const path = pathOf(connector)
  const again = async (known: CallAnswer) => await read(tenant, path, { 'if-none-match': tagOf(known) })
  const made = await read(tenant, path)
  expect((await again(made)).status).toBe(304)
  const run = await start(tenant, connector, 'external_id,external_id\nE1,E1\n')
  const begun = await again(made)
  expect(begun.status).toBe(200)
  await work(run)
  expect((await now(tenant, run)).status).toBe('failed')
  const failed = await again(begun)
  expect([failed.status, failed.json]).toMatchObject([200, { consecutive_failures: 1, state: 'active' }])
})

test('a pause prevents new runs, but a waiting run can be approved and undone', async () => {
  const tenant = admin()
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  const waiting = await runCsv(tenant, connector, csvOf(3))
  expect(await change(tenant, pathOf(connector), '*', { state: 'paused' })).toBe(200)
  expect(await decide(tenant, waiting, 'approve', { diff_hash: waiting.diff_hash })).toBe(202)
  await work(waiting)
  expect(await now(tenant, waiting)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
  expect((await parts().caller.call(tenant, 'POST', `${pathOf(connector)}/runs`)).status).toBe(409)
  expect(await decide(tenant, waiting, 'rollback', {})).toBe(202)
})
