import { bulkReceiptSchema, maxBulkKeys } from '@postern/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bulkActions } from './bulk-support.ts'
import {
  type KeysUnderTest,
  LeaseHolder,
  during,
  newTenant,
  retryWhileUnconfirmed,
  whileLeased,
  startKeys,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const { change, previewed, changed, someKeys, insertKeys } = bulkActions(() => service)

test('a revoke of several keys returns only after every gateway with a lease has applied the entry of each key', async () => {
  const admin = await newTenant(service)
  await whileLeased(async () => {
    const { keys, ids } = await someKeys(admin, 10)
    const { version } = await previewed(admin, { ids })
    const gateways = await Promise.all([1, 2, 3, 4].map(async () => await new LeaseHolder(service.ask).take()))
    const [laggard] = gateways
    let hasReturned = false
    const answer = changed(admin, { action: 'revoke', ids, version }).finally(() => {
      hasReturned = true
    })
    try {
      for (const gateway of gateways.slice(1)) {
        const applied = new Set<string>()
        await expect
          .poll(
            async () => {
              for (const entry of (await gateway.renew()).revocations) if (entry.kind === 'key') applied.add(entry.hash)
              return applied.size
            },
            { interval: 2 },
          )
          .toBe(keys.length)
        await gateway.renew()
      }
      expect(hasReturned).toBe(false)
      await laggard?.renew()
      await laggard?.renew()
      expect((await answer).enforcement).toMatchObject({ gateways: 4, confirmed: 4, fenced: 0 })
    } finally {
      await Promise.all(gateways.map(async (gateway) => await gateway.release()))
      await answer
    }
  })
})

test('a revoke of several keys returns when the lease of a silent gateway has ended, and reports it as fenced', async () => {
  const admin = await newTenant(service)
  const answer = await retryWhileUnconfirmed(async () => {
    const { ids } = await someKeys(admin, 3)
    const { version } = await previewed(admin, { ids })
    const silent = await new LeaseHolder(service.ask).take()
    const answered = await change(admin, { action: 'revoke', ids, version })
    expect((await silent.renew()).granted).toBe(false)
    await silent.release()
    return answered
  })
  expect(bulkReceiptSchema.parse(answer.json).enforcement).toMatchObject({ gateways: 1, confirmed: 0, fenced: 1 })
})

test(`${maxBulkKeys} keys are revoked at once on four gateways`, async () => {
  const admin = await newTenant(service)
  const ids = await insertKeys(admin, maxBulkKeys)
  const { version } = await previewed(admin, { ids })
  const gateways = await Promise.all([1, 2, 3, 4].map(async () => await new LeaseHolder(service.ask).take()))
  const answer = retryWhileUnconfirmed(async () => await change(admin, { action: 'revoke', ids, version }))
  const settled = await during(answer, async () => {
    await Promise.all(gateways.map(async (gateway) => await gateway.renew()))
  })
  await Promise.all(gateways.map(async (gateway) => await gateway.release()))
  const receipt = bulkReceiptSchema.parse(settled.json)
  expect(receipt.keys.length).toBe(maxBulkKeys)
  expect(receipt.keys.every((key) => key.state === 'revoked' && key.enforced_at !== null)).toBe(true)
  expect(receipt.enforcement?.gateways).toBe(receipt.enforcement?.confirmed)
})
