import { generateKeyPairSync } from 'node:crypto'
import { Registry } from '@prometheus-io/client'
import type { TenantAssertion } from '@postern/tenant-db'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openLogSealer } from './sealer.ts'
import { openCheckpointSigner } from './sign.ts'

const assertion = 'v1.key.01a226ea-85e1-7cf6-853d-da8274e097c8.rest'

const sealerOf = async (use: (tenant: TenantAssertion) => Promise<never>) =>
  openLogSealer({
    db: { read: use, write: use },
    checkpoints: await openCheckpointSigner([generateKeyPairSync('ed25519').privateKey]),
    logger: { warn: () => undefined },
    metrics: new Registry(),
  })

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a seal that several requests wait for does not use the memory share of the first', async () => {
  const used: TenantAssertion[] = []
  const use = async (tenant: TenantAssertion): Promise<never> => {
    used.push(tenant)
    return await Promise.reject(new Error('this test has no database'))
  }
  const sealer = await sealerOf(use)
  const share = { reserve: () => false, refusal: () => new Error('the share is exceeded') }
  sealer.schedule({ assertion, share })
  await sealer.close()
  expect(used).toEqual([{ assertion }])
})

test('closing waits for a seal that is under way, and its failure is not retried', async () => {
  const database = Promise.withResolvers<never>()
  const sealer = await sealerOf(async () => await database.promise)
  sealer.schedule({ assertion })
  await vi.runOnlyPendingTimersAsync()
  const order: string[] = []
  const closed = sealer.close().then(() => order.push('closed'))
  await vi.advanceTimersByTimeAsync(0)
  order.push('database failed')
  database.reject(new Error('this test has no database'))
  await closed
  sealer.schedule({ assertion })
  expect(order).toEqual(['database failed', 'closed'])
  expect(vi.getTimerCount()).toBe(0)
})
