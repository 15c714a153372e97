import {
  type StopImportAnswer,
  applyAnswerSchema,
  internalPaths,
  stopImportAnswerSchema,
} from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Principal,
  type UniverseUnderTest,
  legal,
  newTenant,
  node,
  row,
  startUniverse,
  syncOf,
} from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

interface Sent {
  readonly run: string
  readonly attempt?: number
  readonly sequence: number
}

const send = async (tenant: Principal, { run, attempt = 1, sequence }: Sent, ...entities: readonly object[]) =>
  await universe.pushTo(tenant, 'entities', { run_id: run, batch: { attempt, sequence }, entities })

const stop = async (tenant: Principal, run: string, attempt = 1) =>
  await universe.sync.call(syncOf(tenant), 'POST', internalPaths.stopImport, { body: { run_id: run, attempt } })

async function stopped(tenant: Principal, run: string, attempt = 1): Promise<StopImportAnswer> {
  const answer = await stop(tenant, run, attempt)
  expect(answer.status, answer.text).toBe(200)
  return stopImportAnswerSchema.parse(answer.json)
}

async function names(tenant: Principal): Promise<string[]> {
  return Object.values(await universe.stored(tenant))
    .map(({ name, version }) => `${name} ${version}`)
    .toSorted()
}

const conflict = { status: 409, json: { code: 'conflict', detail: 'A later attempt has taken over the run.' } }

describe('a batch of the changes of a run', () => {
  test('is applied once, whatever has changed since', async () => {
    const tenant = newTenant()
    const first = { run: crypto.randomUUID(), sequence: 5 }
    expect((await send(tenant, first, row('A', { name: 'From the source' }))).json).toMatchObject({ created: 1 })
    await universe.push(tenant, [row('A', { name: 'Pushed' })])
    const again = await send(tenant, first, row('A', { name: 'From the source' }))
    expect(again).toMatchObject({ status: 200, json: { created: 0, updated: 0, unchanged: 1 } })
    expect(await names(tenant)).toEqual(['Pushed 2'])
    // A later batch of the run, and the same sequence of another run, are other batches.
    await send(tenant, { ...first, sequence: 6 }, row('B', { name: 'B' }))
    await send(tenant, { run: crypto.randomUUID(), sequence: 5 }, row('C', { name: 'C' }))
    expect(await names(tenant)).toEqual(['B 1', 'C 1', 'Pushed 2'])
  })

  test('that is rejected is not recorded, and can be corrected', async () => {
    const tenant = newTenant()
    const batch = { run: crypto.randomUUID(), sequence: 2 }
    expect((await send(tenant, batch, row('A'), row('B', { parent_external_id: 'nowhere' }))).status).toBe(422)
    expect((await send(tenant, batch, row('A', { name: 'A' }))).json).toMatchObject({ created: 1 })
    expect(await stopped(tenant, batch.run)).toEqual({ sequence: 2 })
  })

  test('of an earlier attempt is rejected, and changes nothing', async () => {
    const tenant = newTenant()
    const run = crypto.randomUUID()
    await send(tenant, { run, attempt: 2, sequence: 1 }, row('A', { name: 'A' }))
    expect(await send(tenant, { run, attempt: 1, sequence: 2 }, row('B'))).toMatchObject(conflict)
    expect((await send(tenant, { run, attempt: 3, sequence: 2 }, row('C', { name: 'C' }))).status).toBe(200)
    expect(await names(tenant)).toEqual(['A 1', 'C 1'])
  })

  test.each([
    ['org-structures', legal([node('top')])],
    ['people', { people: [{ external_id: 'P', name: 'P' }] }],
    ['test-procedures', { test_procedures: [{ external_id: 'T', title: 'T' }] }],
  ])('is applied once to %s too', async (path, body) => {
    const tenant = newTenant()
    const batch = { run_id: crypto.randomUUID(), batch: { attempt: 1, sequence: 1 }, ...body }
    const counts = []
    for (let time = 0; time < 2; time += 1) {
      counts.push(applyAnswerSchema.parse((await universe.pushTo(tenant, path, batch)).json))
    }
    expect(counts).toMatchObject([{ created: 1 }, { created: 0, updated: 0, unchanged: 1 }])
    const older = { ...batch, batch: { attempt: 1, sequence: 2 } }
    await stopped(tenant, batch.run_id)
    expect(await universe.pushTo(tenant, path, older)).toMatchObject(conflict)
  })

  test('of one tenant says nothing of a run of another with the same id', async () => {
    const [mine, theirs] = [newTenant(), newTenant()]
    const batch = { run: crypto.randomUUID(), attempt: 7, sequence: 9 }
    await send(mine, batch, row('A', { name: 'Mine' }))
    expect(await stopped(theirs, batch.run)).toEqual({ sequence: 0 })
    expect((await send(theirs, { ...batch, attempt: 2, sequence: 1 }, row('A', { name: 'Theirs' }))).status).toBe(200)
    expect(await names(theirs)).toEqual(['Theirs 1'])
    expect(await stopped(mine, batch.run, 7)).toEqual({ sequence: 9 })
  })
})

describe('stopping a run', () => {
  test('is for the sync service only', async () => {
    const tenant = newTenant(['admin:sync'])
    const options = { body: { run_id: crypto.randomUUID(), attempt: 1 } }
    for (const caller of [universe.gateway, universe.stranger, universe.findings, universe.evidence]) {
      expect((await caller.call(syncOf(tenant), 'POST', internalPaths.stopImport, options)).status).toBe(401)
    }
    expect((await universe.sync.call(tenant, 'POST', internalPaths.stopImport, options)).status).toBe(401)
    for (const wrong of [{ attempt: 0 }, { run_id: 'first' }, { more: true }]) {
      const body = { ...options.body, ...wrong }
      const answer = await universe.sync.call(syncOf(tenant), 'POST', internalPaths.stopImport, { body })
      expect(answer.status).toBe(422)
    }
    expect((await stop(tenant, options.body.run_id)).status).toBe(200)
  })

  test('returns the last applied batch, and rejects later batches until the next attempt', async () => {
    const tenant = newTenant()
    const run = crypto.randomUUID()
    expect(await stopped(tenant, run)).toEqual({ sequence: 0 })
    expect(await send(tenant, { run, sequence: 1 }, row('A'))).toMatchObject(conflict)
    expect((await send(tenant, { run, attempt: 2, sequence: 1 }, row('A', { name: 'A' }))).status).toBe(200)
    expect(await stopped(tenant, run, 2)).toEqual({ sequence: 1 })
    expect(await stopped(tenant, run, 2)).toEqual({ sequence: 1 })
    expect(await stop(tenant, run, 1)).toMatchObject(conflict)
    expect(await names(tenant)).toEqual(['A 1'])
  })

  test('waits for a batch that is being applied', async () => {
    const tenant = newTenant()
    const run = crypto.randomUUID()
    await universe.push(tenant, [row('X', { name: 'X' })])
    const waiting = async () =>
      await universe.asService.system(
        async (tx) =>
          await tx.query<{ n: number }>({
            text: `select count(*)::int as n from pg_stat_activity
              where datname = current_database() and wait_event_type = 'Lock'`,
            values: [],
          }),
      )
    const answers = await universe.asSuperuser.system(async (tx) => {
      const lock = 'select from universe.reference_counter where tenant_id = $1 for update'
      await tx.query({ text: lock, values: [tenant.tenantId] })
      const sent = send(tenant, { run, sequence: 4 }, row('A', { name: 'A' }))
      await expect.poll(waiting).toEqual([{ n: 1 }])
      const asked = stop(tenant, run)
      await expect.poll(waiting).toEqual([{ n: 2 }])
      return [sent, asked]
    })
    const [applied, told] = await Promise.all(answers)
    expect(applied).toMatchObject({ status: 200, json: { created: 1 } })
    expect(told).toMatchObject({ status: 200, json: { sequence: 4 } })
  })
})
