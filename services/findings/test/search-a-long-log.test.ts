import { findingSchema, type LogKind, logEntrySchema, maxLogWalk } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { listTenantLog } from '../src/tracker-log/tenant/store.ts'
import { type FindingsUnderTest, type Principal, findingBody, newTenant, path, startFindings } from './service.ts'

let service: FindingsUnderTest
beforeAll(async () => {
  service = await startFindings()
})
afterAll(async () => await service.close())

const all = '/api/v1/remediation-log'

/** Creates a tenant with a long log and these matching entries. */
async function tenantWith(entries: Readonly<Record<number, LogKind>>): Promise<Principal> {
  const tenant = newTenant()
  findingSchema.parse((await service.call(tenant, 'POST', path, { body: findingBody() })).json)
  // Read once, so that the entry has its position.
  await service.call(tenant, 'GET', all)
  await service.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `insert into findings.tracker_log (tenant_id, position, finding_id, seq, kind, actor_type, actor_id, has_evidence,
          recorded_at, entry, hash, root)
        select l.tenant_id, new.position, l.finding_id, 1 + new.place, new.kind, l.actor_type, l.actor_id, false, l.recorded_at,
          l.entry::jsonb || jsonb_build_object('position', new.position, 'seq', 1 + new.place, 'kind', new.kind), l.hash, l.root
        from findings.tracker_log l
        cross join unnest($2::bigint[], $3::text[]) with ordinality as new (position, kind, place)
        where l.tenant_id = $1`,
      values: [tenant.tenantId, Object.keys(entries), Object.values(entries)],
    })
  })
  return tenant
}

async function page(tenant: Principal, target: string) {
  const answer = await service.call(tenant, 'GET', target)
  return {
    status: answer.status,
    positions: answer.status === 200 ? positionsOf(answer.json) : undefined,
    next: /^<([^>]+)>; rel="next"$/.exec(answer.headers['link'] ?? '')?.[1],
    total: answer.headers['x-total-count'],
    json: answer.json,
  }
}

const positionsOf = (entries: unknown) =>
  z
    .array(logEntrySchema)
    .parse(entries)
    .map(({ position }) => position)

describe('entries of a kind in a long log', () => {
  test('are found after many other entries', async () => {
    const tenant = await tenantWith({ 70_000: 'escalation', 70_001: 'note', 120_000: 'escalation' })
    expect(await page(tenant, `${all}?kind=escalation`)).toMatchObject({
      positions: [70_000, 120_000],
      next: undefined,
    })
    const first = await page(tenant, `${all}?kind=escalation&limit=1&count=true`)
    expect(first).toMatchObject({ positions: [70_000], total: '2' })
    expect(await page(tenant, first.next ?? '')).toMatchObject({ positions: [120_000], next: undefined })
  })

  test('are returned in short or empty pages if one request cannot search far enough', async () => {
    const tenant = await tenantWith({ 200_000: 'escalation', 1_800_000: 'escalation', 1_800_001: 'note' })
    const walk = async (target: string) => {
      const pages: (readonly number[] | undefined)[] = []
      for (let next: string | undefined = target; next !== undefined && pages.length < 10;) {
        const { positions, next: onward } = await page(tenant, next)
        pages.push(positions)
        next = onward
      }
      return pages
    }
    expect(await walk(`${all}?kind=escalation`)).toEqual([[200_000], [], [], [1_800_000]])
    // Entries after the last match are unknown before they are read.
    expect(await walk(`${all}?kind=escalation&since_seq=${1_800_000 - maxLogWalk}`)).toEqual([[1_800_000], []])
    expect(await walk(`${all}?kind=escalation&since_seq=${1_800_001 - maxLogWalk}`)).toEqual([[1_800_000]])
    expect(await walk(`${all}?actor=nobody`)).toEqual([[], [], [], []])
    expect((await page(newTenant(), (await page(tenant, `${all}?kind=escalation`)).next ?? '')).status).toBe(400)
  })

  test('are counted only up to the search limit; without a filter, any number is counted', async () => {
    const tenant = await tenantWith({ 200_000: 'escalation', 700_000: 'escalation', 700_001: 'note' })
    const counted = async (query: string) => await page(tenant, `${all}?count=true&${query}`)
    for (const filter of ['kind=escalation', 'actor=k']) {
      const refused = await counted(filter)
      expect(refused).toMatchObject({ status: 400, json: { errors: [{ parameter: 'count', code: 'too_big' }] } })
    }
    expect(await counted('kind=escalation&since_seq=200001')).toMatchObject({ positions: [700_000], total: '1' })
    expect(await counted('kind=escalation,note&since_seq=200001')).toMatchObject({ total: '2' })
    expect(await counted('since_seq=700000')).toMatchObject({ positions: [700_001], total: '1' })
    expect(await counted('since_seq=900000')).toMatchObject({ positions: [], total: '0' })
  })

  test('are all in an export, whose statements stay short', async () => {
    const tenant = await tenantWith({ 500_000: 'note', 500_001: 'note', 700_000: 'escalation', 800_000: 'note' })
    const target = `${all}?kind=escalation`
    // Half of an assertion's life is for what is followed: this leaves nearly all of that.
    for (const ago of [0, 31]) {
      const headers = { ...service.signedHeaders(tenant, 'GET', target, ago), accept: 'application/x-ndjson' }
      const lines = (await (await fetch(service.url + target, { headers })).text()).trimEnd().split('\n')
      expect(positionsOf(lines.map((line) => JSON.parse(line)))).toEqual([700_000])
    }
    // Reading counts too: an empty CSV has started, with a blank after a long silence.
    const csv = await service.call(tenant, 'GET', `${all}?actor=nobody`, { headers: { accept: 'text/csv' } })
    expect(csv.text).toMatch(/^position,seq,[a-z_,]+\r\n$/)
    let time = performance.now()
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += 10_000))
    const slow = await service.call(tenant, 'GET', target, { headers: { accept: 'application/x-ndjson' } })
    clock.mockRestore()
    expect(slow.text).toMatch(/^ \{.*\} +\n$/)
    const steps = await service.asService.read(service.assertionOf(tenant.tenantId), async (tx) =>
      listTenantLog(tx, { wanted: { kinds: ['escalation'], actor: undefined }, after: 0, limit: 10 }),
    )
    expect(steps.map(({ position, entry }) => [position, entry?.kind])).toEqual([
      [500_000, undefined],
      [700_000, 'escalation'],
      [800_000, undefined],
    ])
  })
})
