import { generateKeyPairSync } from 'node:crypto'
import { Registry } from '@prometheus-io/client'
import type { TenantAssertion } from '@postern/tenant-db'
import { expect, test } from 'vitest'
import { openLogSealer } from './sealer.ts'
import { openCheckpointSigner } from './sign.ts'

test('a seal that several requests wait for does not use the memory share of the first', async () => {
  const used: TenantAssertion[] = []
  const use = async (tenant: TenantAssertion): Promise<never> => {
    used.push(tenant)
    return await Promise.reject(new Error('this test has no database'))
  }
  const sealer = openLogSealer({
    db: { read: use, write: use },
    checkpoints: await openCheckpointSigner([generateKeyPairSync('ed25519').privateKey]),
    logger: { warn: () => undefined },
    metrics: new Registry(),
  })
  const assertion = 'v1.key.01a226ea-85e1-7cf6-853d-da8274e097c8.rest'
  const share = { reserve: () => false, refusal: () => new Error('the share is exceeded') }
  sealer.schedule({ assertion, share })
  await sealer.close()
  expect(used).toEqual([{ assertion }])
})
