import { generateKeyPairSync } from 'node:crypto'
import type { TenantAssertion } from '@postern/tenant-db'
import { expect, test } from 'vitest'
import { openCheckpointSigner } from '../../tracker-log/sign.ts'
import { createDayStart } from './start-day.ts'

async function noDatabase(): Promise<never> {
  return await Promise.reject(new Error('this test has no database'))
}

test('the work of the first request of a day does not use its memory share, which ends when its client leaves', async () => {
  const used: TenantAssertion[] = []
  const use = async (tenant: TenantAssertion): Promise<never> => {
    used.push(tenant)
    return await noDatabase()
  }
  const db = {
    read: use,
    write: use,
    follow: () => {
      throw new Error('this test reads no export')
    },
    system: noDatabase,
    ping: noDatabase,
    databaseId: noDatabase,
    close: noDatabase,
    stats: () => ({ total: 0, idle: 0, waiting: 0 }),
  }
  const startDay = createDayStart(db, {
    now: () => new Date('2026-11-29T10:00:00Z'),
    checkpoints: await openCheckpointSigner([generateKeyPairSync('ed25519').privateKey]),
    sealer: { settle: use },
    logger: { error: () => undefined },
  })
  const assertion = 'v1.key.01a226ea-85e1-7cf6-853d-da8274e097c8.rest'
  const request = { assertion, share: { reserve: () => false, refusal: () => new Error('the share is exceeded') } }
  await startDay(request)
  // The seal and expired acceptances, without the request's share. Both failed, so the next request tries again.
  expect(used).toEqual([{ assertion }, { assertion }])
  await startDay(request)
  expect(used).toHaveLength(4)
})
