import { actionPlanSchema, problemSchema } from '@postern/contracts'
import { expect } from 'vitest'
import { type FindingsUnderTest, type Principal, openFinding, path } from './service.ts'

export const plans = '/api/v1/action-plans'
export const day = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)
export const planBody = { title: 'Recertify', owner: { email: 'ada@example.org' }, due_date: day(30) }
export const evidence = {
  evidence_id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0e5',
  sha256: 'a'.repeat(64),
  size: 10,
}

export const pointers = (json: unknown): (string | undefined)[] | undefined =>
  problemSchema.parse(json).errors?.map(({ pointer }) => pointer)

export function planCalls(service: () => FindingsUnderTest) {
  const propose = async (tenant: Principal, findingId: string, given: object = {}) =>
    await service().call(tenant, 'POST', `${path}/${findingId}/action-plans`, { body: { ...planBody, ...given } })
  return {
    propose,
    proposed: async (tenant: Principal, given: object = {}) => {
      const finding = await openFinding(service(), tenant)
      const answer = await propose(tenant, finding.id, given)
      expect(answer.status, answer.text).toBe(201)
      return { finding, plan: actionPlanSchema.parse(answer.json), etag: answer.headers['etag'] ?? '' }
    },
    patch: async (tenant: Principal, id: string, body: object, etag = '*') =>
      await service().call(tenant, 'PATCH', `${plans}/${id}`, { body, headers: { 'if-match': etag } }),
    move: async (tenant: Principal, id: string, to: string, body: object = {}) =>
      await service().call(tenant, 'POST', `${plans}/${id}/status`, { body: { to, ...body } }),
    read: async (tenant: Principal, target: string) => (await service().call(tenant, 'GET', target)).json,
  }
}
