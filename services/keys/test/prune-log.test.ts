import { keepLogMs } from '@postern/contracts/internal'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createLogPruner } from '../src/revocation/prune-log.ts'
import { type KeysUnderTest, LeaseHolder, newKey, newTenant, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

async function bySuperuser(text: string): Promise<void> {
  await service.asSuperuser.system(async (tx) => await tx.execute(sql(text)))
}

beforeEach(async () => {
  await bySuperuser('delete from keys.revocation')
})

async function revokeOne(): Promise<string> {
  const admin = await newTenant(service)
  const { id, hash } = await newKey(service, admin)
  await revoke(service, admin, id)
  return hash
}

async function entries(): Promise<number> {
  return await service.asSuperuser.system(async (tx) => (await tx.query(sql('select from keys.revocation'))).length)
}

/** Returns what a starting gateway receives. */
async function toldAtStart(): Promise<string[]> {
  const { revocations } = await new LeaseHolder(service.ask).renew()
  return revocations.flatMap((entry) => (entry.kind === 'key' ? [entry.hash] : []))
}

function keeper(limit = 5000) {
  const clock = { now: 1000 }
  const { prune } = createLogPruner({ db: service.asService, now: () => clock.now, limit })
  return {
    prune,
    after: async (ms: number) => {
      clock.now += ms
      await prune()
    },
  }
}

test.each([
  ['ahead', '+ 1 day'],
  ['behind', '- 1 day'],
])(
  'entries made while the clock of PostgreSQL was %s are kept, and starting gateways receive them',
  async (_way, interval) => {
    const hash = await revokeOne()
    await bySuperuser(`update keys.revocation set at = at + interval '${interval}'`)
    const { prune, after } = keeper()
    await prune()
    await after(keepLogMs - 1)
    expect(await toldAtStart()).toEqual([hash])
  },
)

test('entries that are old on the clock of a replica are deleted, whatever the clock of PostgreSQL says', async () => {
  const { prune, after } = keeper()
  await prune()
  await revokeOne()
  await prune()
  await after(keepLogMs - 1)
  const hash = await revokeOne()
  await bySuperuser(`update keys.revocation set at = at + interval '1 day'`)
  await after(0)
  expect(await entries()).toBe(2)
  await after(1)
  expect(await toldAtStart()).toEqual([hash])
  await after(keepLogMs)
  expect(await entries()).toBe(0)
})

test('a replica that has just started deletes no entries', async () => {
  await revokeOne()
  await keeper().prune()
  expect(await entries()).toBe(1)
})

test('the oldest entries are deleted first, so that the log has no gaps', async () => {
  const { prune, after } = keeper(1)
  const hashes = [await revokeOne(), await revokeOne(), await revokeOne()]
  await bySuperuser(
    `update keys.revocation set at = at - interval '1 day' where seq = (select max(seq) - 1 from keys.revocation)`,
  )
  await prune()
  await after(keepLogMs)
  expect(await toldAtStart()).toEqual(hashes.slice(1))
  await after(0)
  expect(await toldAtStart()).toEqual(hashes.slice(2))
})

test('entries of a restored database count as new even if their numbers were seen before', async () => {
  const { prune, after } = keeper()
  await revokeOne()
  await prune()
  await after(keepLogMs - 1)
  await bySuperuser('delete from keys.revocation')
  await bySuperuser('update keys.revocation_seq set seq = seq - 1')
  await prune()
  const hash = await revokeOne()
  await after(1)
  expect(await toldAtStart()).toEqual([hash])
})

test('entries of another server count as new even if their numbers were seen before', async () => {
  const { prune, after } = keeper()
  await revokeOne()
  await prune()
  await after(keepLogMs - 1)
  await bySuperuser('delete from keys.revocation')
  await bySuperuser('update keys.revocation_seq set seq = seq - 1')
  const hash = await revokeOne()
  await onAnotherServer(async () => {
    await after(1)
    expect(await toldAtStart()).toEqual([hash])
    // From here on it is pruned like any other entry.
    await after(keepLogMs - 1)
    expect(await entries()).toBe(1)
    await after(1)
    expect(await entries()).toBe(0)
  })
})

/** Makes the function report a different server start while `work` runs. */
async function onAnotherServer(work: () => Promise<void>): Promise<void> {
  const [row] = await service.asSuperuser.system(
    async (tx) => await tx.query<{ text: string }>(sql(`select pg_get_functiondef('keys.prune_log'::regproc) as text`)),
  )
  const text = row?.text ?? ''
  expect(text).toContain('pg_catalog.pg_postmaster_start_time()')
  await bySuperuser(
    text.replace('pg_catalog.pg_postmaster_start_time()', `'2026-01-01 00:00Z'::pg_catalog.timestamptz`),
  )
  try {
    await work()
  } finally {
    await bySuperuser(text)
  }
}

test('the metric reports the number of log entries', async () => {
  const { prune } = keeper()
  expect(await prune()).toBe(0)
  await revokeOne()
  await revokeOne()
  expect(await prune()).toBe(2)
})
