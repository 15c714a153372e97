import { createTestDatabase } from '@postern/local-stack/testing'
import { createLogger, createMetrics } from '@postern/service-kit'
import { openTenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHousekeeping } from '../src/housekeeping.ts'
import { renewLease } from '../src/revocation/store.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => await database.drop())

function open() {
  return openTenantDb({
    connectionString: database.url('keys'),
    maxConnections: 2,
    connectTimeoutMs: 5_000,
    queryTimeoutMs: 10_000,
    applicationName: 'keys-tests',
  })
}

test('leases are counted while PostgreSQL tells of them, and are none while it does not', async () => {
  const metrics = createMetrics('keys')
  const db = open()
  const gateway = { gateway: crypto.randomUUID(), name: 'one', cursor: 0, leaseMs: 3_600_000 }
  expect(await db.system(async (tx) => await renewLease(tx, gateway))).toBe(true)
  const housekeeping = startHousekeeping({
    db,
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
