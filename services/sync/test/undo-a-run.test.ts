import type { Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { csvOf, useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, create, work, now, runCsv, decide, names, undo } = useRuns()

let world: ReturnType<typeof parts>['world']
let caller: ReturnType<typeof parts>['caller']

beforeAll(() => {
  ;({ world, caller } = parts())
})

async function undone(tenant: Principal, run: Run): Promise<Run> {
  const back = await undo(tenant, run)
  await work(back)
  return await now(tenant, back)
}

async function refusal(tenant: Principal, { id }: Run): Promise<unknown[]> {
  const answer = await caller.call(tenant, 'POST', `/api/v1/sync-runs/${id}/rollback`, { body: {} })
  return [answer.status, Reflect.get(Object(answer.json), 'code')]
}

const twoPeople = (name: string, address: string) =>
  `external_id,name,email\n1,${name} One,one@x.example\n2,${name} Two,${address}\n`

describe('a rollback', () => {
  test('undoes of a run what the universe had not refused', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    const body = [{ external_id: '9', name: 'Nine', email: 'nine@x.example' }]
    await caller.call(tenant, 'POST', '/api/v1/sync/people', { body })
    await runCsv(tenant, connector, twoPeople('First', 'two@x.example'))
    const run = await runCsv(tenant, connector, twoPeople('Second', 'nine@x.example'))
    expect(run).toMatchObject({ status: 'partial', counts: { updated: 2, applied: 1 } })
    const back = await undo(tenant, run)
    await work(back)
    expect(await now(tenant, back)).toMatchObject({ status: 'succeeded', counts: { updated: 1, applied: 1 } })
    const people = 'select name from universe.person where tenant_id = $1 order by external_id'
    const stored = [{ name: 'First One' }, { name: 'First Two' }, { name: 'Nine' }]
    expect(await world.rows(people, [tenant.tenantId])).toEqual(stored)
  })

  test('is refused where a later run has changed something of the run, and goes where it has changed something else', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const run = await runCsv(tenant, connector, csvOf(3))
    const other = await runCsv(tenant, connector, `${csvOf(3)}\nX,Other,process`)
    expect(other).toMatchObject({ counts: { created: 1 } })
    await runCsv(tenant, connector, `${csvOf(3)}\nX,Renamed,process`)
    expect(await decide(tenant, other, 'rollback', {})).toBe(409)
    const back = await undo(tenant, run)
    await work(back)
    expect(await now(tenant, back)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
  })
})

describe('what is undone already', () => {
  test('is no change by a later run: the run before can be undone, back to the first', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const first = await runCsv(tenant, connector, csvOf(2))
    const second = await runCsv(tenant, connector, csvOf(2, 'Second'))
    const third = await runCsv(tenant, connector, csvOf(2, 'Third'))
    for (const run of [first, second]) expect(await refusal(tenant, run)).toEqual([409, 'diff_stale'])
    for (const run of [third, second]) {
      expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { updated: 2, applied: 2 } })
      expect(await refusal(tenant, run)).toEqual([409, 'invalid_transition'])
    }
    expect(await names(tenant)).toEqual(['Entity 0 active', 'Entity 1 active'])
    expect(await undone(tenant, first)).toMatchObject({ status: 'succeeded', counts: { deactivated: 2, applied: 2 } })
    expect(await refusal(tenant, first)).toEqual([409, 'invalid_transition'])
  })

  test('is left out by the next rollback, which undoes the rest; half a rollback that is undone itself leaves the whole run', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    const people = async () =>
      (
        await world.rows('select name, email from universe.person where tenant_id = $1 order by external_id', [
          tenant.tenantId,
        ])
      ).map(({ name, email }) => `${String(name)} ${String(email)}`)
    const ninth = async (email: string) => {
      const body = [{ external_id: '9', name: 'Nine', email }]
      expect((await caller.call(tenant, 'POST', '/api/v1/sync/people', { body })).status).toBe(200)
    }
    await runCsv(tenant, connector, twoPeople('First', 'two@x.example'))
    const run = await runCsv(tenant, connector, twoPeople('Second', 'second@x.example'))
    await ninth('two@x.example')
    const half = await undone(tenant, run)
    expect(half).toMatchObject({ status: 'partial', counts: { updated: 2, applied: 1 } })
    expect(await undone(tenant, half)).toMatchObject({ status: 'succeeded', counts: { updated: 1, applied: 1 } })
    expect(await undone(tenant, run)).toMatchObject({ status: 'partial', counts: { updated: 2, applied: 1 } })
    await ninth('nine@x.example')
    expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { updated: 1, applied: 1 } })
    expect(await people()).toEqual(['First One one@x.example', 'First Two two@x.example', 'Nine nine@x.example'])
    expect(await refusal(tenant, run)).toEqual([409, 'invalid_transition'])
  })

  test('is brought no longer: limits do not hold up the table that should have come', async () => {
    const tenant = admin()
    const safety = { max_deactivate_pct: 20, max_deactivate: 3, min_rows: 0 }
    const connector = await create(tenant, { missing_policy: 'deactivate', safety })
    const wrong = await runCsv(tenant, connector, csvOf(10))
    expect(await undone(tenant, wrong)).toMatchObject({ status: 'succeeded', counts: { deactivated: 10 } })
    const right = ['external_id,name,type', ...Array.from({ length: 10 }, (_, n) => `R${n},Right ${n},process`)]
    const run = await runCsv(tenant, connector, right.join('\n'))
    expect(run).toMatchObject({ status: 'succeeded', breaches: [], counts: { created: 10, deactivated: 0 } })
    // What comes back is there again.
    expect(await runCsv(tenant, connector, `${right.join('\n')}\nE0,Entity 0,process`)).toMatchObject({
      status: 'succeeded',
      counts: { reactivated: 1 },
    })
  })
})
