import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Run, runChangeSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { AssertionSource } from '../src/granted-work/session.ts'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, work, create, start, now, runCsv, undo, names, errorsOf } = useRuns()

afterEach(() => {
  vi.restoreAllMocks()
})

const entity = (name: string, ...more: readonly string[]): string =>
  ['external_id,name,type', `E1,${name},process`, ...more].join('\n')
/** One valid row and one invalid row. */
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
  test('are deleted after a run of their tenant: errors, and changes that were not applied', async () => {
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
    // Applied changes can still be undone.
    expect(await names(tenant)).toEqual(['Two active'])
    const back = await undo(tenant, applied)
    await work(back)
    expect((await now(tenant, back)).counts).toMatchObject({ applied: 1 })
  })

  test('are kept forever without a retention time', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
    await age(5000, looked)
    await runCsv(tenant, connector, entity('One'))
    expect(await leftOf(tenant, looked)).toEqual([1, 1, false])
  })

  test('are kept for a run that may have applied more than it has counted', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const doubtful = await runCsv(tenant, connector, withError('One'))
    await parts().world.rows('update sync.run set applied_count = 0 where id = $1', [doubtful.id])
    await age(91, doubtful)
    await work(await start(tenant, connector, entity('One')), { keepDetailsDays: 90 })
    expect(await leftOf(tenant, doubtful)).toEqual([1, 0, true])
  })

  test('are deleted in parts: the next run deletes what one has left', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
    await addErrors(tenant, looked, 12_000)
    await age(91, looked)
    const stopping = new AbortController()
    const first = await start(tenant, connector, entity('One'))
    // The process stops when the run ends.
    const ended = () => stopping.abort()
    await work(first, { keepDetailsDays: 90, ended }, { signal: stopping.signal })
    expect(await countErrors(looked)).toBe(12_001)
    expect(await keptOf(first)).toEqual({ parts: 0, grants: 0 })

    await work(await start(tenant, connector, entity('One')), { keepDetailsDays: 90 })
    expect(await leftOf(tenant, looked)).toEqual([0, 0, true])
  })

  describe('after a run', () => {
    test('that cannot be removed', async () => {
      const tenant = admin()
      const connector = await create(tenant)
      const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
      await age(91, looked)
      const { rows } = parts().world
      await rows(`create function sync.refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$`)
      await rows(`create trigger refuses before delete on sync.run_error
        for each row when (old.run_id = '${looked.id}') execute function sync.refuse()`)
      const next = await start(tenant, connector, entity('One'))
      const events: unknown[] = []
      const write = (line: string) => void events.push(JSON.parse(line).event)
      await work(next, { keepDetailsDays: 90, logger: createLogger({ service: 'sync', level: 'info', write }) })
      await rows('drop trigger refuses on sync.run_error')
      await rows('drop function sync.refuse()')
      expect(events).toEqual(['sync_run_ended', 'sync_details_not_cleared'])
      expect(await leftOf(tenant, looked)).toEqual([1, 1, false])
      expect(await keptOf(next)).toEqual({ parts: 0, grants: 0 })
    })

    test('that take longer than an assertion is valid', async () => {
      const tenant = admin()
      const connector = await create(tenant)
      const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
      await addErrors(tenant, looked, 60_000)
      await age(91, looked)
      const next = await start(tenant, connector, entity('One'))
      const [workerDb, ended] = slowOnceEnded(parts().workerDb)
      await work(next, { keepDetailsDays: 90, workerDb, ended })
      expect(await leftOf(tenant, looked)).toEqual([0, 0, true])
      expect(await keptOf(next)).toEqual({ parts: 0, grants: 0 })
    })
  })
})

/**
 * A database whose transactions take 20 s after the end of a run, longer than the assertion is valid. Only its own
 * clock moves, so that other services are not overloaded.
 */
function slowOnceEnded(db: TenantDb): [db: TenantDb, ended: () => void] {
  let [nowMs, takesMs] = [Math.floor(performance.now()), 0]
  const { getWithTenant } = AssertionSource.prototype
  vi.spyOn(AssertionSource.prototype, 'getWithTenant').mockImplementation(async function (this: AssertionSource) {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(nowMs)
    const answer = getWithTenant.call(this)
    clock.mockRestore()
    return await answer
  })
  const issuedMs = new Map<unknown, number>()
  const system: TenantDb['system'] = async (query) => {
    const answer = await db.system(query)
    issuedMs.set(answer, nowMs)
    return answer
  }
  const write: TenantDb['write'] = async (tenant, query) => {
    nowMs += takesMs
    if (nowMs - (issuedMs.get(tenant.assertion) ?? 0) > 60_000) throw new Error('the assertion has ended')
    return await db.write(tenant, query)
  }
  return [
    { ...db, system, write },
    () => {
      takesMs = 20_000
    },
  ]
}

async function addErrors(tenant: Principal, run: Run, count: number): Promise<void> {
  await parts().world.rows(
    `insert into sync.run_error (tenant_id, run_id, seq, code, message)
    select $1::uuid, $2::uuid, 1000 + n, 'wrong', 'is wrong' from generate_series(1, $3::integer) n`,
    [tenant.tenantId, run.id, count],
  )
}

async function countErrors({ id }: Run): Promise<unknown> {
  const [row] = await parts().world.rows('select count(*)::integer as total from sync.run_error where run_id = $1', [
    id,
  ])
  return row?.['total']
}

/** Remains of a run: parts of its file, and the worker's permission. */
async function keptOf({ id }: Run): Promise<unknown> {
  const [row] = await parts().world.rows(
    `select
      (select count(*)::integer from sync.upload_chunk u join sync.run r on r.upload_id = u.upload_id where r.id = $1) as parts,
      (select count(*)::integer from tenancy.granted_work g where g.work_id = $1) as grants`,
    [id],
  )
  return row
}

test('the steps of the runbook clear a tenant that no longer runs connectors', async () => {
  const [tenant, other] = [admin(), admin()]
  const connector = await create(tenant)
  const ofOther = await runCsv(other, await create(other), withError('Theirs'), '?mode=dry_run')
  const looked = await runCsv(tenant, connector, withError('One'), '?mode=dry_run')
  const applied = await runCsv(tenant, connector, withError('Two'))
  const young = await runCsv(tenant, connector, withError('Five'), '?mode=dry_run')
  await age(91, ofOther, looked, applied)
  await age(89, young)
  const before = await revisionOf(looked)

  const runbook = readFileSync(join(import.meta.dirname, '../../../docs/operations/runbook.md'), 'utf8')
  const section = runbook.split('## What connector runs leave behind')[1]?.split('\n## ')[0] ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('    '))
  const statements = lines.join('\n').replaceAll("'ID'", `'${tenant.tenantId}'`).split(';')
  const inside = statements.map((text) => text.trim()).filter((text) => !['', 'begin', 'commit'].includes(text))
  expect(inside).toHaveLength(3)
  for (const text of inside) await parts().world.rows(text)

  const whole = [1, 1, false]
  expect({
    looked: await leftOf(tenant, looked),
    applied: await leftOf(tenant, applied),
    young: await leftOf(tenant, young),
    ofOther: await leftOf(other, ofOther),
  }).toEqual({ looked: [0, 0, true], applied: [1, 0, true], young: whole, ofOther: whole })
  expect(await revisionOf(looked)).toBe(Number(before) + 1)
})

async function revisionOf({ id }: Run): Promise<unknown> {
  return (await parts().world.rows('select revision from sync.run where id = $1', [id]))[0]?.['revision']
}
