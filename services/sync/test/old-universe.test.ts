import { internalPaths } from '@postern/contracts/internal'
import { type Principal, startTestProxy } from '@postern/local-stack/testing'
import { parseKeyRing } from '@postern/signed-context'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Universe, openUniverse } from '../src/push/universe.ts'
import { useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>

beforeAll(() => {
  ;({ world } = parts())
})

/** The universe of an earlier release, which refuses plans of authoritative connectors. */
async function openOldUniverse(): Promise<Universe> {
  const proxy = await startTestProxy(parts().process.url, async ({ path, body }, forward) => {
    const isUnknown = path === internalPaths.planImport && body.includes('"authoritative"')
    return isUnknown ? { status: 400, headers: problemJson, body: badRequest } : await forward()
  })
  const ring = parseKeyRing(world.rings.syncUniverse)
  const old = openUniverse({ url: proxy.url, ring, timeoutMs: 60_000 })
  onTestFinished(async () => {
    await old.close()
    await proxy.close()
  })
  return old
}

const problemJson = { 'content-type': 'application/problem+json' }
const badRequest = Buffer.from('{"code":"bad_request"}')

async function accessOf({ tenantId }: Principal) {
  const text = 'select is_active from tenancy.directory_name where tenant_id = $1 order by is_active'
  return (await world.rows(text, [tenantId])).map(({ is_active }) => is_active)
}

async function peopleOf({ tenantId }: Principal) {
  const text = 'select name from universe.person where tenant_id = $1 order by name'
  return (await world.rows(text, [tenantId])).map(({ name }) => name)
}

describe('a run of people while the universe is of an earlier release', () => {
  const table = 'external_id,name,active\nada,Ada,true\nbob,Bob,false\n'
  test('that does not know of authoritative connectors is retried, and does everything after the upgrade', async () => {
    const tenant = admin()
    const old = await openOldUniverse()
    const run = await start(tenant, await create(tenant, { dataset: 'people', authoritative: true }), table)
    await expect(work(run, { universe: old })).rejects.toThrow('The universe service cannot be asked now')
    expect(await now(tenant, run)).toMatchObject({ finished_at: null, failure: null, counts: { applied: 0 } })
    expect([await peopleOf(tenant), await accessOf(tenant)]).toEqual([[], []])
    await work(run)
    expect(await now(tenant, run)).toMatchObject({
      status: 'succeeded',
      attempt: 2,
      counts: { created: 2, applied: 2 },
    })
    expect([await peopleOf(tenant), await accessOf(tenant)]).toEqual([
      ['Ada', 'Bob'],
      [false, true],
    ])
  })

  test('fails with its last attempt, says to run the connector again, and the next run does everything', async () => {
    const tenant = admin()
    const old = await openOldUniverse()
    const connector = await create(tenant, { dataset: 'people', authoritative: true })
    const run = await start(tenant, connector, table)
    await work(run, { universe: old }, { isLast: true })
    const message = 'The run could not be carried out. Applied changes stay. Run the connector again later.'
    expect(await now(tenant, run)).toMatchObject({
      status: 'failed',
      failure: { code: 'interrupted', message },
      counts: { applied: 0 },
    })
    expect(await peopleOf(tenant)).toEqual([])
    expect(await runCsv(tenant, connector, table)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    expect(await accessOf(tenant)).toEqual([false, true])
  })

  test('is carried out if its connector does not decide about access', async () => {
    const tenant = admin()
    const old = await openOldUniverse()
    const run = await start(tenant, await create(tenant, { dataset: 'people' }), table)
    await work(run, { universe: old })
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 2 } })
    expect([await peopleOf(tenant), await accessOf(tenant)]).toEqual([['Ada', 'Bob'], []])
  })
})
