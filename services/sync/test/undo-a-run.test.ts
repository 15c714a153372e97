import { type Connector, type Run, missingRowSchema } from '@postern/contracts'
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
  test('undoes what the universe has applied of a run', async () => {
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

  test('is rejected if a later run has changed one of the same rows, and only then', async () => {
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

const staff = (...rows: readonly string[]) => ['external_id,name,email,active', ...rows].join('\n')
const peopleOf = async ({ tenantId }: Principal) =>
  (
    await world.rows(
      `select concat_ws(' ', external_id, email, case when active then 'active' end) as person
      from universe.person where tenant_id = $1 order by external_id`,
      [tenantId],
    )
  ).map(({ person }) => person)

describe('a rollback that makes more people inactive than the connector allows', () => {
  const safety = { min_rows: 0, max_change_pct: 100, max_deactivate_pct: 50, max_deactivate: 2 }

  test('waits for approval, and then applies what was approved', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people', safety })
    const run = await runCsv(tenant, connector, staff('1,Ada,,true', '2,Bob,,true', '3,Cleo,,true'))
    const back = await undone(tenant, run)
    expect(back).toMatchObject({
      status: 'needs_approval',
      breaches: [
        { limit: 'max_deactivate', actual: 3, allowed: 2 },
        { limit: 'max_deactivate_pct', actual: 100, allowed: 50 },
      ],
      counts: { deactivated: 3, applied: 0 },
    })
    expect(await peopleOf(tenant)).toEqual(['1 active', '2 active', '3 active'])
    expect(await decide(tenant, back, 'approve', { diff_hash: back.diff_hash })).toBe(202)
    await work(back)
    expect(await now(tenant, back)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
    expect(await peopleOf(tenant)).toEqual(['1', '2', '3'])
  })

  test('counts them also if it undoes a rollback', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people', safety })
    await runCsv(tenant, connector, staff('1,Ada,,true', '2,Bob,,true', '3,Cleo,,true', '4,Dan,,true'))
    const ended = await runCsv(
      tenant,
      connector,
      staff('1,Ada,,false', '2,Bob,,false', '3,Cleo,,false', '4,Dan,,true'),
      '?override_safety=true&reason=They+left',
    )
    expect(ended).toMatchObject({ status: 'succeeded', counts: { deactivated: 3 } })
    const back = await undone(tenant, ended)
    expect(back).toMatchObject({ status: 'succeeded', breaches: [], counts: { reactivated: 3 } })
    expect(await undone(tenant, back)).toMatchObject({ status: 'needs_approval', counts: { deactivated: 3 } })
  })

  test('does not wait within the limits, or for other rows', async () => {
    const tenant = admin()
    const people = await create(tenant, { dataset: 'people', safety })
    await runCsv(tenant, people, staff('1,Ada,,true', '2,Bob,,true'))
    const second = await runCsv(tenant, people, staff('1,Ada,,true', '2,Bob,,true', '3,Cleo,,true', '4,Dan,,true'))
    expect(await undone(tenant, second)).toMatchObject({ status: 'succeeded', counts: { deactivated: 2 } })
    const entities = await create(tenant, { safety })
    const run = await runCsv(tenant, entities, csvOf(3))
    expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { deactivated: 3 } })
  })
})

describe('an address that passed to a new person', () => {
  test('returns with the rollback, in any order of rows, and the rollback can be undone', async () => {
    const rows = ['1,Ada,ada.old@x.example,true', '2,Ada New,ada@x.example,true']
    for (const next of [rows, rows.toReversed()]) {
      const tenant = admin()
      const connector = await create(tenant, { dataset: 'people' })
      await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true'))
      const run = await runCsv(tenant, connector, staff(...next))
      const exchanged = ['1 ada.old@x.example active', '2 ada@x.example active']
      expect(await peopleOf(tenant)).toEqual(exchanged)

      const back = await undone(tenant, run)
      expect(back).toMatchObject({ status: 'succeeded', counts: { updated: 1, deactivated: 1, applied: 2 } })
      expect(await peopleOf(tenant)).toEqual(['1 ada@x.example active', '2'])
      expect(await refusal(tenant, run)).toEqual([409, 'invalid_transition'])

      expect(await undone(tenant, back)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
      expect(await peopleOf(tenant)).toEqual(exchanged)
    }
  })

  test('that was new stays with the person after the rollback', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true'))
    const run = await runCsv(tenant, connector, staff('1,Ada,ada.old@x.example,true', '2,Bob,bob@x.example,true'))
    expect(await undone(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    expect(await peopleOf(tenant)).toEqual(['1 ada@x.example active', '2 bob@x.example'])
  })
})

describe('an undone change', () => {
  test('does not count as a later change, so runs can be undone back to the first', async () => {
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

  test('is skipped by the next rollback, which undoes the rest', async () => {
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

  test('no longer counts for the limits, so a corrected table can follow', async () => {
    const tenant = admin()
    const safety = { max_deactivate_pct: 20, max_deactivate: 3, min_rows: 0 }
    const connector = await create(tenant, { missing_policy: 'deactivate', safety })
    const wrong = await runCsv(tenant, connector, csvOf(10))
    expect(await undone(tenant, wrong)).toMatchObject({ status: 'succeeded', counts: { deactivated: 10 } })
    const right = ['external_id,name,type', ...Array.from({ length: 10 }, (_, n) => `R${n},Right ${n},process`)]
    const run = await runCsv(tenant, connector, right.join('\n'))
    expect(run).toMatchObject({ status: 'succeeded', breaches: [], counts: { created: 10, deactivated: 0 } })
    // The returned row is active again.
    expect(await runCsv(tenant, connector, `${right.join('\n')}\nE0,Entity 0,process`)).toMatchObject({
      status: 'succeeded',
      counts: { reactivated: 1 },
    })
  })
})

async function missingOf(tenant: Principal, { id }: Connector): Promise<unknown[]> {
  const listed = (await caller.call(tenant, 'GET', `/api/v1/connectors/${id}/missing`)).json
  const told = `select external_id from universe.entity where tenant_id = $1 and source_missing_since is not null order by 1`
  return [
    missingRowSchema
      .array()
      .parse(listed)
      .map(({ source_key: key }) => key),
    (await world.rows(told, [tenant.tenantId])).map(({ external_id: key }) => key),
  ]
}

describe('a row that a rollback has made inactive', () => {
  test('is no longer missing once the rollback is undone; earlier missing rows still are', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    await runCsv(tenant, connector, `${csvOf(1)}\nX,Lost,process`)
    const back = await undone(tenant, await runCsv(tenant, connector, csvOf(3)))
    expect(await missingOf(tenant, connector)).toEqual([
      ['E1', 'E2', 'X'],
      ['E1', 'E2', 'X'],
    ])
    expect(await undone(tenant, back)).toMatchObject({ status: 'succeeded', counts: { reactivated: 2, applied: 2 } })
    expect(await missingOf(tenant, connector)).toEqual([['X'], ['X']])
    expect(await runCsv(tenant, connector, csvOf(3))).toMatchObject({ counts: { unchanged: 3, applied: 0 } })
  })

  test('and that the source no longer has stays missing', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    await runCsv(tenant, connector, csvOf(1))
    const back = await undone(tenant, await runCsv(tenant, connector, csvOf(2)))
    await runCsv(tenant, connector, csvOf(1))
    expect(await undone(tenant, back)).toMatchObject({ status: 'succeeded', counts: { reactivated: 1 } })
    expect(await missingOf(tenant, connector)).toEqual([['E1'], ['E1']])
  })
})
