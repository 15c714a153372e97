import type { Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { treeOf, useRuns } from './run-support.ts'
import { admin } from './support.ts'

/*
 * Who, or what, a source has no longer becomes inactive, whatever is wrong with rows beside it: else it stays as it is every night, and
 * access that is decided by it stays open.
 */

const { parts, create, runCsv, work, now, decide, names, errorsOf } = useRuns()

async function peopleOf({ tenantId }: Principal): Promise<unknown[]> {
  const text = `select external_id, active from universe.person where tenant_id = $1 order by external_id`
  return (await parts().world.rows(text, [tenantId])).map((row) => [row['external_id'], row['active']])
}

const staff = (...rows: readonly string[]) => ['external_id,name,email,active', ...rows].join('\n')

async function faults(tenant: Principal, run: Run): Promise<unknown[]> {
  return (await errorsOf(tenant, run)).map(({ source_key: key, field, message }) => [key, field, message])
}

const table = (keys: readonly string[]) =>
  ['external_id,name,type', ...keys.map((key) => `${key},${key},process`)].join('\n')

describe('a leaver', () => {
  test('whose address comes back under another key becomes inactive; the newcomer is told who has it', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people', missing_policy: 'deactivate' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true', '2,Bob,bob@x.example,true'))
    const run = await runCsv(tenant, connector, staff('1b,Ada,ada@x.example,true', '2,Bob,bob@x.example,true'))
    expect(run).toMatchObject({ status: 'partial', counts: { deactivated: 1, applied: 1 } })
    expect(await peopleOf(tenant)).toEqual([
      ['1', false],
      ['2', true],
    ])
    const taken = 'is the address of another stored person, "1", who keeps it also while inactive'
    expect(await faults(tenant, run)).toEqual([['1b', 'email', taken]])
  })

  test.each([
    ['behind', ['1b,Ada,ada@x.example,true', '1,Ada,ada@x.example,false']],
    ['before', ['1,Ada,ada@x.example,false', '1b,Ada,ada@x.example,true']],
  ])('who stands %s the newcomer with the same address becomes inactive', async (_where, rows) => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people' })
    await runCsv(tenant, connector, staff('1,Ada,ada@x.example,true'))
    const run = await runCsv(tenant, connector, staff(...rows))
    expect(run.status).toBe('partial')
    expect(await peopleOf(tenant)).toEqual([['1', false]])
    expect((await errorsOf(tenant, run)).map(({ source_key: key, code }) => [key, code])).toEqual([['1b', 'duplicate']])
  })
})

test('who leaves becomes inactive beside an older record of theirs, and a new record of before displaces nobody', async () => {
  const tenant = admin()
  const connector = await create(tenant, { dataset: 'people' })
  // Of two new ones who is there is taken in.
  await runCsv(tenant, connector, staff('0,Ada,ada@x.example,false', '1,Ada,ada@x.example,true'))
  expect(await peopleOf(tenant)).toEqual([['1', true]])
  const renamed = await runCsv(tenant, connector, staff('0,Ada,ada@x.example,false', '1,Ada Lund,ada@x.example,true'))
  expect((await errorsOf(tenant, renamed)).map(({ source_key: key }) => key)).toEqual(['0'])
  const run = await runCsv(tenant, connector, staff('0,Ada,ada@x.example,false', '1,Ada Lund,ada@x.example,false'))
  expect(await peopleOf(tenant)).toEqual([['1', false]])
  expect((await errorsOf(tenant, run)).map(({ source_key: key }) => key)).toEqual(['0'])
})

test('an entity that is gone becomes inactive where what was above it cannot move', async () => {
  const tenant = admin()
  const connector = await create(tenant, { missing_policy: 'deactivate' })
  const chain = Array.from({ length: 11 }, (_none, at) => `C${at},${at === 0 ? '' : `C${at - 1}`},Chain ${at},process`)
  await runCsv(tenant, connector, treeOf([...chain, 'P,,Parent,process', 'M,P,Gone,process'].join('\n')))
  const run = await runCsv(tenant, connector, treeOf([...chain, 'P,C10,Parent,process'].join('\n')))
  expect((await names(tenant)).filter((name) => name.startsWith('Gone'))).toEqual(['Gone archived'])
  expect((await errorsOf(tenant, run)).map(({ source_key: key }) => key)).toEqual(['P'])
})

test('a run that waits names the rows that would only be flagged, and is approved for those alone', async () => {
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
