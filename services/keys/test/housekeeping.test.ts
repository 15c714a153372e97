import { keepLogMs } from '@postern/contracts/internal'
import { createTestDatabase } from '@postern/local-stack/testing'
import { createLogger, createMetrics } from '@postern/service-kit'
import { type Statement, type TenantDb, openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHousekeeping } from '../src/housekeeping.ts'
import { pruneLog, renewLease } from '../src/revocation/store.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => await database.drop())

function open(role: 'keys' | 'superuser' = 'keys') {
  return openTenantDb({
    connectionString: database.url(role),
    maxConnections: 2,
    connectTimeoutMs: 60_000,
    queryTimeoutMs: 60_000,
    applicationName: 'keys-tests',
  })
}

test('the lease metric is 0 while PostgreSQL is unavailable', async () => {
  const metrics = createMetrics('keys')
  const db = open()
  const gateway = { gateway: crypto.randomUUID(), name: 'one', cursor: 0, mark: null, leaseMs: 3_600_000 }
  expect(await db.system(async (tx) => await renewLease(tx, gateway))).toBe(true)
  const housekeeping = startHousekeeping({
    db,
    enforcer: { enforceKeys: async () => ({ at: new Date(), enforcement: null }) },
    leaks: { retry: async () => undefined },
    logger: createLogger({ service: 'keys', level: 'fatal', write: () => undefined }),
    metrics,
    everyMs: 5,
  })
  const counted = async (): Promise<string | undefined> =>
    /^postern_keys_leases(?:\{.*\})? (\d+)$/m.exec(await metrics.metrics())?.[1]
  await expect.poll(counted).toBe('1')
  await db.close()
  await expect.poll(counted).toBe('0')
  await housekeeping.stop()
})

test('an operation that fails is named in the log and does not stop the others', async () => {
  const db = open()
  const [run, logged] = [new Set<string | undefined>(), new Array<string>()]
  const check = (statement: Statement): Statement => {
    run.add(statement.name)
    if (statement.name === 'keys_note_pending_denials') throw new Error('this statement is broken')
    return statement
  }
  const breaking: Pick<TenantDb, 'system'> = {
    system: async (work) =>
      await db.system(
        async (tx) =>
          await work({
            query: async (statement) => await tx.query(check(statement)),
            execute: async (statement) => await tx.execute(check(statement)),
          }),
      ),
  }
  const housekeeping = startHousekeeping({
    db: breaking,
    enforcer: { enforceKeys: async () => ({ at: new Date(), enforcement: null }) },
    leaks: { retry: async () => undefined },
    logger: createLogger({ service: 'keys', level: 'warn', write: (line) => void logged.push(line) }),
    metrics: createMetrics('keys'),
    everyMs: 5,
  })
  try {
    await expect
      .poll(() => [...run])
      .toEqual(expect.arrayContaining(['keys_start_overlaps', 'keys_revoke_idle_keys', 'keys_review_keys']))
    expect(logged.join('')).toContain('"operation":"record_denials"')
  } finally {
    await housekeeping.stop()
    await db.close()
  }
})

test('old entries of the log are deleted', async () => {
  const [superuser, db] = [open('superuser'), open()]
  const clock = { now: 0 }
  const metrics = createMetrics('keys')
  const housekeeping = startHousekeeping({
    db,
    enforcer: { enforceKeys: async () => ({ at: new Date(), enforcement: null }) },
    leaks: { retry: async () => undefined },
    logger: createLogger({ service: 'keys', level: 'fatal', write: () => undefined }),
    metrics,
    everyMs: 5,
    now: () => clock.now,
  })
  const add = async (seq: number): Promise<void> => {
    await superuser.system(async (tx) => {
      await tx.execute({ text: 'update keys.revocation_seq set seq = $1', values: [seq] })
      const text = `insert into keys.revocation (seq, kind, tenant_id, version, revoked) values ($1, 'tenant', $2, 1, false)`
      await tx.execute({ text, values: [seq, crypto.randomUUID()] })
    })
  }
  const kept = async (): Promise<number[]> => {
    const text = 'select seq::int4 from keys.revocation order by seq'
    const rows = await superuser.system(async (tx) => await tx.query<{ seq: number }>({ text, values: [] }))
    return rows.map(({ seq }) => seq)
  }
  try {
    await add(1)
    await expect
      .poll(async () => {
        clock.now += keepLogMs
        return await kept()
      })
      .toEqual([])
    await add(2)
    expect(await kept()).toEqual([2])
    await expect.poll(async () => await metrics.metrics()).toMatch(/^postern_keys_log_entries(?:\{.*\})? 1$/m)
    const asked = { upTo: 0, server: undefined, limit: 1 }
    expect(await db.system(async (tx) => await pruneLog(tx, asked))).toMatchObject({ seq: 2, held: 1 })
  } finally {
    await housekeeping.stop()
    await db.close()
    await superuser.close()
  }
})
