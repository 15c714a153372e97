import type { Connector, Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import type { Universe } from '../src/push/universe.ts'
import { endLostRun } from '../src/worker/carry-out.ts'
import { applying, useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, workerParts, work, create, start, now, runCsv, decide, names } = useRuns()

const entities = (...keys: string[]): string =>
  ['external_id,name,type', ...keys.map((key) => `${key},${key},process`)].join('\n')
const people = (...keys: string[]): string => ['external_id,name', ...keys.map((key) => `${key},${key}`)].join('\n')
const follows = { missing_policy: 'deactivate' }

/** The universe; `then` happens when it has applied a batch. */
function universeThat(then: () => Promise<unknown>): Universe {
  const { universe } = parts()
  return applying(universe, async (...asked) => {
    const outcome = await universe.imports.apply(...asked)
    if (!outcome.done) await then()
    return outcome
  })
}

async function cancelled(tenant: Principal, connector: Connector, file: string): Promise<Run> {
  const run = await start(tenant, connector, file)
  await work(run, { universe: universeThat(async () => expect(await decide(tenant, run, 'cancel')).toBe(202)) })
  const ended = await now(tenant, run)
  expect(ended.status).toBe('cancelled')
  return ended
}

async function missing(tenant: Principal, { id }: Connector): Promise<unknown> {
  const answer = await parts().caller.call(tenant, 'GET', `/api/v1/connectors/${id}/missing?count=true`)
  return answer.headers['x-total-count']
}

describe('rows of an interrupted run belong to its connector, so the next run finds them missing', () => {
  test('after a cancellation', async () => {
    const tenant = admin()
    const connector = await create(tenant, follows)
    await runCsv(tenant, connector, entities('E0'))
    expect(await cancelled(tenant, connector, entities('E0', 'W1', 'W2'))).toMatchObject({ counts: { applied: 2 } })
    const next = await runCsv(tenant, connector, entities('E0'))
    expect(next).toMatchObject({ status: 'succeeded', counts: { unchanged: 1, missing: 2, deactivated: 2 } })
    expect(await names(tenant)).toEqual(['E0 active', 'W1 archived', 'W2 archived'])
    expect(await missing(tenant, connector)).toBe('2')
  })

  test('after its last attempt failed, or all its workers died', async () => {
    for (const end of ['failed', 'lost']) {
      const tenant = admin()
      const connector = await create(tenant, follows)
      await runCsv(tenant, connector, entities('E0'))
      const run = await start(tenant, connector, entities('E0', 'W1'))
      const universe = universeThat(async () => await Promise.reject(new Error('this worker breaks down')))
      const working = work(run, { universe }, { isLast: end === 'failed' })
      if (end === 'failed') await working
      else {
        await expect(working).rejects.toThrow('breaks down')
        await endLostRun(workerParts(), run.id)
      }
      expect(await now(tenant, run)).toMatchObject({ status: 'failed', counts: { applied: 1 } })
      expect(await runCsv(tenant, connector, entities('E0'))).toMatchObject({ counts: { missing: 1, deactivated: 1 } })
    }
  })

  test('after a cancellation during a first import of people', async () => {
    const tenant = admin()
    const connector = await create(tenant, { dataset: 'people', ...follows })
    await cancelled(tenant, connector, people('P1', 'P2'))
    const next = await runCsv(tenant, connector, people('P1'))
    expect(next).toMatchObject({ status: 'succeeded', counts: { unchanged: 1, missing: 1, deactivated: 1 } })
  })
})

test('rows are missing only after a completed run, not after a cancelled one', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  await runCsv(tenant, connector, entities('E0', 'E1'))
  await cancelled(tenant, connector, entities('E1', 'W1'))
  expect(await missing(tenant, connector)).toBe('0')
  expect(await runCsv(tenant, connector, entities('E1', 'W1'))).toMatchObject({ counts: { unchanged: 2, missing: 1 } })
  expect(await missing(tenant, connector)).toBe('1')
})
