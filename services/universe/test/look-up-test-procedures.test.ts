import { lookupTestProceduresAnswerSchema } from '@postern/contracts/internal'
import type { CallAnswer, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Principal, type UniverseUnderTest, newTenant, startUniverse } from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => (universe = await startUniverse()))
afterAll(async () => await universe.close())

const target = '/internal/v1/test-procedures/lookup'

async function lookUp(
  { tenantId }: Principal,
  addresses: unknown,
  caller: SignedCaller = universe.evidence,
  kind: 'service' | 'api_key' = 'service',
): Promise<CallAnswer> {
  const principal = { tenantId, kind, id: 'evidence', label: '', scopes: [] }
  return await caller.call(principal, 'POST', target, { body: { addresses } })
}

async function found(tenant: Principal, addresses: readonly string[]) {
  return lookupTestProceduresAnswerSchema.parse((await lookUp(tenant, addresses)).json).test_procedures
}

describe('looking test procedures up', () => {
  test('is only for the evidence service', async () => {
    const tenant = newTenant(['*'])
    for (const caller of [universe.gateway, universe.sync, universe.stranger]) {
      expect((await lookUp(tenant, ['ref:TP-0001'], caller)).status).toBe(401)
    }
    expect((await lookUp(tenant, ['ref:TP-0001'], universe.evidence, 'api_key')).status).toBe(401)
    expect((await lookUp(tenant, ['ref:TP-0001'])).status).toBe(200)
  })

  test('takes 1 to 50 addresses', async () => {
    for (const addresses of [[], ['TP-1'], Array.from({ length: 51 }, (_, number) => `ext:${number}`), 'ext:A']) {
      expect((await lookUp(newTenant(), addresses)).status).toBe(422)
    }
  })

  test('finds by id, reference and external id, in the order asked, and says which are completed', async () => {
    const tenant = newTenant()
    await universe.pushTo(tenant, 'test-procedures', {
      test_procedures: [
        { external_id: 'SOX-7', title: 'Access review' },
        { external_id: 'ref:TP-0001', title: 'Named to confuse', status: 'completed' },
      ],
    })
    const [sox, completed] = await found(tenant, ['ext:SOX-7', 'ext:ref:TP-0001'])
    expect([sox?.status, completed?.status]).toEqual(['not_started', 'completed'])
    const asked = ['ref:TP-0002', `${completed?.id}`, 'ext:nobody', 'ref:TP-0001', `${sox?.id}`, 'ext:SOX-7']
    expect(await found(tenant, asked)).toEqual([completed, completed, null, sox, sox, sox])
  })

  test("does not find another tenant's, though it has the same reference and external id", async () => {
    const [one, other] = [newTenant(), newTenant()]
    for (const tenant of [one, other]) {
      await universe.pushTo(tenant, 'test-procedures', { test_procedures: [{ external_id: 'A', title: 'A' }] })
    }
    const [theirs] = await found(other, ['ext:A'])
    const [own, unknown] = await found(one, ['ref:TP-0001', `${theirs?.id}`])
    expect(unknown).toBeNull()
    expect(own?.id).not.toBe(theirs?.id)
  })
})
