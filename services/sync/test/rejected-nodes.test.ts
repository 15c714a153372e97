import type { Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { expect, test } from 'vitest'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, create, runCsv, errorsOf } = useRuns()

const hierarchy = { key: 'line', name: 'Line', kind: 'management' }
const tree = (...rows: readonly string[]) => ['node_key,parent_key,name,entities', 'N0,,Root,', ...rows].join('\n')

async function nodesOf({ tenantId }: Principal): Promise<unknown[]> {
  const text = `select n.node_key, n.name from universe.node n where n.tenant_id = $1 order by n.node_key`
  return (await parts().world.rows(text, [tenantId])).map((row) => [row['node_key'], row['name']])
}

async function faults(tenant: Principal, run: Run): Promise<unknown[]> {
  return (await errorsOf(tenant, run)).map(({ row, source_key: key, field, code }) => [row, key, field, code])
}

const connect = async (tenant: Principal) => await create(tenant, { dataset: 'org_structure', hierarchy })

test('only a node that names a missing entity, and new nodes below it, are rejected', async () => {
  const tenant = admin()
  const connector = await connect(tenant)
  const rows = tree('N1,N0,One,', 'N2,N0,Two,NOPE', 'N3,N2,Below,', 'N4,N3,Below that,', 'N5,N1,Five,')
  const run = await runCsv(tenant, connector, rows)
  expect(run).toMatchObject({ status: 'partial', counts: { created: 6, applied: 3 } })
  expect(await nodesOf(tenant)).toEqual([
    ['N0', 'Root'],
    ['N1', 'One'],
    ['N5', 'Five'],
  ])
  expect((await faults(tenant, run)).toSorted()).toEqual([
    [4, 'N2', 'entities.0', 'unknown'],
    [5, 'N3', 'parent_key', 'unknown'],
    [6, 'N4', 'parent_key', 'unknown'],
  ])
  // Corrected rows come with the next run.
  const next = await runCsv(tenant, connector, rows.replace('NOPE', ''))
  expect(next).toMatchObject({ status: 'succeeded', counts: { created: 3, applied: 3 } })
})

test('a contradictory node is an error of its row, and fails no other', async () => {
  const tenant = admin()
  const connector = await connect(tenant)
  const rows = [
    'node_key,parent_key,name,valid_from,valid_to',
    'N0,,Root,,',
    'N1,N0,One,2025-01-01,2024-01-01',
    'N2,N0,Two,2024-01-01,2025-01-01',
  ].join('\n')
  for (const [query, status, names] of [
    ['?mode=dry_run', 'succeeded', []],
    ['', 'partial', ['N0', 'N2']],
  ] as const) {
    const run = await runCsv(tenant, connector, rows, query)
    expect(run).toMatchObject({ status, counts: { valid: 2, invalid: 1, created: 2, applied: names.length } })
    expect(await faults(tenant, run)).toEqual([[3, 'N1', 'valid_to', 'out_of_range']])
    expect((await nodesOf(tenant)).map((node) => (Array.isArray(node) ? node[0] : node))).toEqual(names)
  }
})

test('an existing node is unchanged if its change is rejected, and keeps its children', async () => {
  const tenant = admin()
  const connector = await connect(tenant)
  await runCsv(tenant, connector, tree('N1,N0,One,', 'N2,N1,Two,'))
  const run = await runCsv(tenant, connector, tree('N1,N0,Renamed,NOPE', 'N2,N1,Two more,', 'N3,N1,Three,'))
  expect(run).toMatchObject({ status: 'partial', counts: { applied: 2 } })
  expect(await nodesOf(tenant)).toEqual([
    ['N0', 'Root'],
    ['N1', 'One'],
    ['N2', 'Two more'],
    ['N3', 'Three'],
  ])
})

test('a fault of the tree fails the run and changes nothing, whatever else is wrong', async () => {
  const tenant = admin()
  const connector = await connect(tenant)
  await runCsv(tenant, connector, tree('A,N0,Above,', 'B,A,Below,', 'C,N0,Other,'))
  const before = await nodesOf(tenant)
  // The two change places; the one that cannot would stand below itself.
  const moved = tree('B,N0,Below,NOPE', 'A,B,Above,', 'C,N0,Another,')
  const run = await runCsv(tenant, connector, moved)
  expect(run).toMatchObject({ status: 'failed', counts: { applied: 0 } })
  expect(await nodesOf(tenant)).toEqual(before)
})
