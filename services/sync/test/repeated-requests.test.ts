import type { Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { beforeAll, expect, test } from 'vitest'
import type { Universe } from '../src/push/universe.ts'
import { treeOf, useRuns } from './run-support.ts'
import { admin } from './support.ts'

/* Rows may be so long that few fit into a request. Here each is sent by itself, twice, as after a lost answer. */

const { parts, work, create, start, now, decide, names, undo, errorsOf } = useRuns()

let whole: Universe
let brief: Universe
let asked = 0

beforeAll(() => {
  ;({ universe: whole } = parts())
  brief = {
    ...whole,
    imports: {
      ...whole.imports,
      stage: async (attempt, rows, gone) => {
        for (const row of [...rows, ...rows]) {
          asked += 1
          await whole.imports.stage(attempt, [row])
        }
        for (let time = 0; time < 2; time += 1) if (gone !== undefined) await whole.imports.stage(attempt, [], gone)
      },
    },
  }
})

const first = treeOf('A,,Root,process\nB,A,One,process\nC,A,Two,process\nD,A,Three,process\nE,A,Four,process')
/** One row is new, below an existing one; two are changed; two are missing. */
const second = treeOf('A,,Root,process\nB,A,One more,process\nC,A,Two more,process\nF,C,Five,process')

async function ran(tenant: Principal, run: Run, universe: Universe): Promise<Run> {
  await work(run, { universe })
  return await now(tenant, run)
}

/** What two runs and the rollback of the second make of a tenant's universe. */
async function play(universe: Universe) {
  const tenant = admin()
  const connector = await create(tenant, { missing_policy: 'deactivate' })
  await ran(tenant, await start(tenant, connector, first), universe)
  const run = await ran(tenant, await start(tenant, connector, second), universe)
  const after = await names(tenant)
  const again = await ran(tenant, await start(tenant, connector, second), universe)
  const back = await ran(tenant, await undo(tenant, run), universe)
  return {
    run: { status: run.status, counts: run.counts },
    after,
    again: again.counts,
    back: { status: back.status, counts: back.counts },
    errors: await errorsOf(tenant, run),
    before: await names(tenant),
  }
}

test('a run and its rollback have the same result with one request or several', async () => {
  const expected = await play(whole)
  expect(expected.run).toMatchObject({ status: 'succeeded', counts: { created: 1, updated: 2, deactivated: 2 } })
  asked = 0
  expect(await play(brief)).toEqual(expected)
  expect(asked).toBeGreaterThan(6)
})

test('an approval covers what was reviewed, and not what has changed since in a later part', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await ran(tenant, await start(tenant, connector, first), whole)
  const strict = await create(tenant, { safety: { min_rows: 10 } })
  const others = treeOf('A,,Root,process\nB,A,1,process\nC,A,2,process\nD,A,3,process\nE,A,4,process')
  const run = await ran(tenant, await start(tenant, strict, others), brief)
  expect(run.status).toBe('needs_approval')
  expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(202)
  expect((await ran(tenant, run, brief)).status).toBe('succeeded')
  const next = await ran(tenant, await start(tenant, strict, others.replaceAll(/,(\d),/g, ',$1 more,')), brief)
  expect(await decide(tenant, next, 'approve', { diff_hash: next.diff_hash })).toBe(202)
  await ran(tenant, await start(tenant, connector, others.replace('E,A,4', 'E,A,Pushed')), whole)
  expect(await ran(tenant, next, brief)).toMatchObject({ status: 'failed', failure: { code: 'diff_stale' } })
})
