import type { Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { treeOf, useRuns } from './run-support.ts'
import { admin } from './support.ts'

/*
 * Missing rows become inactive whatever is wrong with others. Otherwise access that depends on them would stay open.
 */

const { parts, create, runCsv, work, now, decide, names, errorsOf } = useRuns()

async function peopleOf({ tenantId }: Principal): Promise<unknown[]> {
  const text = `select external_id, active from universe.person where tenant_id = $1 order by external_id`
  return (await parts().world.rows(text, [tenantId])).map((row) => [row['external_id'], row['active']])
}

async function addressesOf({ tenantId }: Principal): Promise<unknown[]> {
  const text = `select email from universe.person where tenant_id = $1 order by external_id`
  return (await parts().world.rows(text, [tenantId])).map((row) => row['email'])
}

const staff = (...rows: readonly string[]) => ['external_id,name,email,active', ...rows].join('\n')

async function faults(tenant: Principal, run: Run): Promise<unknown[]> {
  return (await errorsOf(tenant, run)).map(({ source_key: key, field, message }) => [key, field, message])
}

const table = (keys: readonly string[]) =>
  ['external_id,name,type', ...keys.map((key) => `${key},${key},process`)].join('\n')

describe('a leaver', () => {
  test('whose address returns under another key becomes inactive, and the new person has the address', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people', missing_policy: 'deactivate' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true', '2,Bob,bob@x.example,true'))
    const run = await runCsv(tenant, connector, staff('1b,Ada,ada@x.example,true', '2,Bob,bob@x.example,true'))
    expect(run).toMatchObject({ status: 'succeeded', counts: { deactivated: 1, created: 1 } })
    expect(await peopleOf(tenant)).toEqual([
      ['1', false],
      ['1b', true],
      ['2', true],
    ])
    expect(await addressesOf(tenant)).toEqual([null, 'ada@x.example', 'bob@x.example'])
  })

  test.each([
    ['behind', ['1b,Ada,ada@x.example,true', '1,Ada,ada@x.example,false']],
    ['before', ['1,Ada,ada@x.example,false', '1b,Ada,ada@x.example,true']],
  ])('a person %s the new one becomes inactive and hands over the address', async (_where, rows) => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true'))
    const run = await runCsv(tenant, connector, staff(...rows))
    expect([run.status, await peopleOf(tenant)]).toEqual([
      'succeeded',
      [
        ['1', false],
        ['1b', true],
      ],
    ])
    expect(await addressesOf(tenant)).toEqual([null, 'ada@x.example'])
    // The inactive row is known now, and still does not block the new one.
    const next = await runCsv(tenant, connector, staff(...rows.map((row) => row.replace('1b,Ada', '1b,Ada Lund'))))
    expect(next).toMatchObject({ status: 'succeeded', counts: { updated: 1 } })
    expect(await addressesOf(tenant)).toEqual([null, 'ada@x.example'])
  })

  test('keeps the address while no one else claims it, and an active person never gives it up', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,false', '2,Bob,bob@x.example,true'))
    expect(await addressesOf(tenant)).toEqual(['ada@x.example', 'bob@x.example'])
    const other = await create(tenant, { dataset: 'people' })
    const run = await runCsv(tenant, other, staff('3,Eve,bob@x.example,true', '4,Old,bob@x.example,false'))
    expect(run.status).toBe('partial')
    expect(await faults(tenant, run)).toEqual([['3', 'email', 'is the address of another active person, "2"']])
    expect(await addressesOf(tenant)).toEqual(['ada@x.example', 'bob@x.example', null])
  })
})

const records = (name: string, active: boolean) =>
  staff('0,Ada,ada@x.example,false', `1,${name},ada@x.example,${active}`)

test('of two records of one person the active one has the address; if both are inactive, neither is rejected', async () => {
  const tenant = admin()
  const connector = await create(tenant, { dataset: 'people' })
  for (const text of [records('Ada', true), records('Ada Lund', true), records('Ada Lund', false)]) {
    expect((await runCsv(tenant, connector, text)).status).toBe('succeeded')
    expect(await addressesOf(tenant)).toEqual([null, 'ada@x.example'])
  }
  expect(await peopleOf(tenant)).toEqual([
    ['0', false],
    ['1', false],
  ])
})

test('a missing entity becomes inactive even if its former parent cannot move', async () => {
  const tenant = admin()
  const connector = await create(tenant, { missing_policy: 'deactivate' })
  const chain = Array.from({ length: 11 }, (_none, at) => `C${at},${at === 0 ? '' : `C${at - 1}`},Chain ${at},process`)
  await runCsv(tenant, connector, treeOf([...chain, 'P,,Parent,process', 'M,P,Gone,process'].join('\n')))
  const run = await runCsv(tenant, connector, treeOf([...chain, 'P,C10,Parent,process'].join('\n')))
  expect((await names(tenant)).filter((name) => name.startsWith('Gone'))).toEqual(['Gone archived'])
  expect((await errorsOf(tenant, run)).map(({ source_key: key }) => key)).toEqual(['P'])
})

test('a waiting run names the rows that would only be flagged, and its approval covers only those', async () => {
  const tenant = admin()
  const connector = await create(tenant, { missing_policy: 'flag', safety: { max_deactivate: 5 } })
  const keys = Array.from({ length: 20 }, (_, n) => `F${String(n).padStart(2, '0')}`)
  await runCsv(tenant, connector, table(keys))
  const waiting = async (found: readonly string[], lost: readonly string[]) => {
    const run = await runCsv(tenant, connector, table(found))
    const told = (await errorsOf(tenant, run)).map(({ source_key: key, code, severity }) => [key, code, severity])
    expect(told).toEqual(lost.map((key) => [key, 'row_missing', 'warning']))
    return run
  }
  const first = await waiting(keys.slice(0, 10), keys.slice(10))
  const second = await waiting(keys.slice(10), keys.slice(0, 10))
  expect(second).toMatchObject({ status: 'needs_approval', counts: { missing: 10, deactivated: 0 } })
  expect(await decide(tenant, second, 'approve', { diff_hash: first.diff_hash })).toBe(409)
  expect(await decide(tenant, second, 'approve', { diff_hash: second.diff_hash })).toBe(202)
  await work(second)
  expect(await now(tenant, second)).toMatchObject({ status: 'succeeded', counts: { missing: 10 } })
})
