import { problemSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertManyFindings, nextOf } from './list-support.ts'
import {
  type FindingsUnderTest,
  type Principal,
  findingBody,
  newTenant,
  path,
  readFindings,
  startFindings,
} from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

async function get(principal: Principal, query = '') {
  return await service.call(principal, 'GET', `${path}${query}`)
}

async function list(principal: Principal, query = '') {
  return readFindings.parse((await get(principal, query)).json)
}

const headerOf = (answer: Awaited<ReturnType<typeof get>>) => String(answer.headers['postern-next-updated-since'])
const titles = (answer: Awaited<ReturnType<typeof get>>) =>
  readFindings
    .parse(answer.json)
    .map(({ title }) => title)
    .toSorted()
const create = async (tenant: Principal, title: string) =>
  await service.call(tenant, 'POST', path, { body: findingBody({ title }) })

/** Changes the finding `First` in a transaction that began an hour ago, and commits when told. */
function beginLateChange({ tenantId }: Principal) {
  const [begun, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const done = service.asSuperuser.system(async (tx) => {
    await tx.execute({
      text: `update findings.finding set title = 'Late', version = version + 1, updated_at = now() - interval '1 hour'
        where tenant_id = $1 and title = 'First'`,
      values: [tenantId],
    })
    await tx.execute({
      text: `update tenancy.change_batch set began_at = now() - interval '1 hour'
        where tenant_id = $1 and made_by = pg_current_xact_id()`,
      values: [tenantId],
    })
    begun.resolve()
    await mayCommit.promise
  })
  return { begun: Promise.race([begun.promise, done]), commit: async () => (mayCommit.resolve(), await done) }
}

describe('an incremental load', () => {
  test('updated_since also returns changes of the half minute before, which may have been committed later', async () => {
    const tenant = newTenant()
    await service.call(tenant, 'POST', path, { body: findingBody() })
    const [finding] = await list(tenant)
    const changed = finding?.updated_at ?? ''
    const after = (ms: number) => new Date(Date.parse(changed) + ms).toISOString()
    for (const [ms, length] of [
      [0, 1],
      [30_000, 1],
      [30_001, 0],
    ] as const) {
      expect(await list(tenant, `?updated_since=${after(ms)}`), String(ms)).toHaveLength(length)
    }
    expect(await list(tenant, '?updated_since=0001-01-01T00:00:00Z')).toHaveLength(1)
    expect(await list(tenant, '?updated_since=9999-12-31T23:59:59Z')).toHaveLength(0)
    expect((await get(tenant, '?updated_since=9999-12-31T23:59:59-23:59')).status).toBe(400)
    expect(await list(tenant, '?updated_since=2020-01-01T00:00:00%2B02:00')).toHaveLength(1)
  })

  test.each([
    '2026-01-01T00:00:00Z_1',
    '2026-02-30T00:00:00.000Z_1',
    '2026-01-01T00:00:00.000Z_',
    '2026-01-01T00:00:00.000Z_01',
  ])('the invalid updated_since %s is rejected', async (given) => {
    const answer = await get(newTenant(), `?updated_since=${given}`)
    expect(answer.status).toBe(400)
    expect(problemSchema.parse(answer.json).errors?.[0]?.parameter).toBe('updated_since')
    expect((await get(newTenant(), '?updated_since=2026-01-01T00:00:00.000Z_1')).status).toBe(200)
  })

  test.each(['application/json', 'application/x-ndjson'])(
    'loses no change that is committed late, as %s',
    async (accept) => {
      const tenant = newTenant()
      await create(tenant, 'First')
      await create(tenant, 'Second')
      const late = beginLateChange(tenant)
      await late.begun
      const first = await service.call(tenant, 'GET', path, { headers: { accept } })
      expect(first.text).not.toContain('Late')
      const mark = headerOf(first)
      await late.commit()
      expect(titles(await get(tenant, `?updated_since=${mark}`))).toEqual(['Late', 'Second'])
      // Without the position, the time is too late for it.
      expect(titles(await get(tenant, `?updated_since=${mark.split('_', 1)[0]}`))).toEqual(['Second'])
    },
  )

  test('gets a late change once, whether or not the feed has its position yet', async () => {
    const tenant = newTenant()
    await create(tenant, 'First')
    const late = beginLateChange(tenant)
    await late.begun
    const mark = headerOf(await get(tenant))
    await late.commit()
    const waiting = await get(tenant, `?updated_since=${mark}`)
    expect(titles(waiting)).toEqual(['Late'])
    await service.call(tenant, 'GET', '/api/v1/changes')
    const placed = await get(tenant, `?updated_since=${mark}`)
    expect(titles(placed)).toEqual(['Late'])
    expect(titles(await get(tenant, `?updated_since=${headerOf(placed)}`))).toEqual([])
  })

  test('has the mark of its first page on every page', async () => {
    const tenant = newTenant()
    for (const title of ['First', 'Second', 'Third']) await create(tenant, title)
    const first = await get(tenant, '?limit=1')
    await create(tenant, 'Fourth')
    await service.call(tenant, 'GET', '/api/v1/changes')
    const second = await get(tenant, nextOf(first.headers['link']))
    const third = await get(tenant, nextOf(second.headers['link']))
    expect(headerOf(first)).toMatch(/Z_[0-9]+$/)
    expect([headerOf(second), headerOf(third)]).toEqual([headerOf(first), headerOf(first)])
    expect(headerOf(await get(tenant, '?limit=1'))).not.toBe(headerOf(first))
    expect(titles(await get(tenant, `?updated_since=${headerOf(third)}`))).toContain('Fourth')
  })

  test.each([
    '/api/v1/findings',
    '/api/v1/recommendations',
    '/api/v1/action-plans',
    '/api/v1/findings/ref:F-2026-0001/recommendations',
    '/api/v1/findings/ref:F-2026-0001/action-plans',
  ])('%s hands out the next updated_since, and accepts it', async (target) => {
    const tenant = newTenant()
    await insertManyFindings(service, tenant, 1)
    const answer = await service.call(tenant, 'GET', target)
    expect([answer.status, headerOf(answer)]).toEqual([200, expect.stringMatching(/Z_[0-9]+$/)])
    expect((await service.call(tenant, 'GET', `${target}?updated_since=${headerOf(answer)}`)).status).toBe(200)
  })
})
