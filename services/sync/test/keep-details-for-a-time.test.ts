import { type Run, runChangeSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, work, create, start, now, runCsv, undo, names, errorsOf } = useRuns()

const entity = (name: string, ...more: readonly string[]): string =>
  ['external_id,name,type', `E1,${name},process`, ...more].join('\n')
/** One row to take in, and one that is wrong. */
const withError = (name: string): string => entity(name, 'E2,,process')

async function changesOf(tenant: Principal, { id }: Run): Promise<number> {
  const { json } = await parts().caller.call(tenant, 'GET', `/api/v1/sync-runs/${id}/changes`)
  return runChangeSchema.array().parse(json).length
}

/** How many changes and errors of a run there are, and whether it says that they were removed. */
async function leftOf(tenant: Principal, run: Run): Promise<[changes: number, errors: number, isCleared: boolean]> {
  const { details_cleared_at: clearedAt } = await now(tenant, run)
  return [await changesOf(tenant, run), (await errorsOf(tenant, run)).length, clearedAt !== undefined]
}

async function age(days: number, ...runs: readonly Run[]): Promise<void> {
  await parts().world.rows(
    'update sync.run set finished_at = finished_at - make_interval(days => $1) where id = any ($2)',
    [days, runs.map(({ id }) => id)],
  )
}

describe('details of runs that are kept for 90 days', () => {
  test('go behind a run of their tenant: errors, and changes that were only looked at', async () => {
    const [tenant, other] = [admin(), admin()]
    const connector = await create(tenant)
    const ofOther = await runCsv(other, await create(other), withError('Theirs'), '?mode=dry_run')
    const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
    const applied = await runCsv(tenant, connector, withError('Two'))
    const careful = await create(tenant, { safety: { min_rows: 5 } })
    const waited = await runCsv(tenant, careful, withError('Three'))
    const waits = await runCsv(tenant, careful, withError('Four'))
    expect([(await now(tenant, waited)).status, waits.status]).toEqual(['cancelled', 'needs_approval'])
    const young = await runCsv(tenant, connector, withError('Five'), '?mode=dry_run')
    await age(91, ofOther, looked, applied, waited)
    await age(89, young)

    const next = await start(tenant, connector, entity('Two'))
    await work(next, { keepDetailsDays: 90 })
    expect((await now(tenant, next)).status).toBe('succeeded')
    const whole = [1, 1, false]
    expect({
      looked: await leftOf(tenant, looked),
      applied: await leftOf(tenant, applied),
      waited: await leftOf(tenant, waited),
      waits: await leftOf(tenant, waits),
      young: await leftOf(tenant, young),
      ofOther: await leftOf(other, ofOther),
    }).toEqual({
      looked: [0, 0, true],
      applied: [1, 0, true],
      waited: [0, 0, true],
      waits: whole,
      young: whole,
      ofOther: whole,
    })
    // What was applied can be undone as before.
    expect(await names(tenant)).toEqual(['Two active'])
    const back = await undo(tenant, applied)
    await work(back)
    expect((await now(tenant, back)).counts).toMatchObject({ applied: 1 })
  })

  test('stay for as long as the database is where no time is set', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
    await age(5000, looked)
    await runCsv(tenant, connector, entity('One'))
    expect(await leftOf(tenant, looked)).toEqual([1, 1, false])
  })

  test('stay of a run that may have applied more than it has counted', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const doubtful = await runCsv(tenant, connector, withError('One'))
    await parts().world.rows('update sync.run set applied_count = 0 where id = $1', [doubtful.id])
    await age(91, doubtful)
    await work(await start(tenant, connector, entity('One')), { keepDetailsDays: 90 })
    expect(await leftOf(tenant, doubtful)).toEqual([1, 0, true])
  })
})
