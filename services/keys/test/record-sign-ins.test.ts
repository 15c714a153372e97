/** @promise Tenants: A flood of sign-ins cannot fill the audit feed, and each tenant has only its own. */

import { type AuditEvent, auditEventSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { pruneSignIns } from '../src/sign-in/store.ts'
import { type KeysUnderTest, newTenant, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const report = async (...signIns: object[]) =>
  await service.ask(internalPaths.usage, { uses: [], denials: [], signIns })

/** At noon (UTC) of yesterday, so that a test lies within one day. */
const noon = (Math.floor(Date.now() / 86_400_000) - 0.5) * 86_400_000

const signInOf = ({ tenantId }: Principal, given: object = {}) => {
  return { tenantId, id: 'bo', name: 'Bo Berg', reason: null, address: '192.0.2.1', at: noon, ...given }
}

async function readFeed(admin: Principal): Promise<AuditEvent[]> {
  const { json } = await service.call(admin, 'GET', '/api/v1/audit-events?order=oldest&category=sign_in&limit=1000')
  return z.array(auditEventSchema).parse(json)
}

test('a sign-in is an event of its tenant, with its person, address and outcome', async () => {
  const [admin, other] = [await newTenant(service), await newTenant(service)]
  const unknown = { ...admin, tenantId: crypto.randomUUID() }
  expect((await report(signInOf(admin, { reason: 'perhaps' }))).status).toBe(422)
  const lines = [
    signInOf(admin, { requestId: 'first' }),
    signInOf(admin, { id: 'cy', name: 'Cy', reason: 'no_role' }),
    signInOf(unknown),
  ]
  expect((await report(...lines)).status).toBe(204)
  expect(await readFeed(admin)).toMatchObject([
    {
      timestamp: new Date(noon).toISOString(),
      action: 'sign_in.succeeded',
      outcome: 'success',
      reason: null,
      actor_type: 'person',
      actor_id: 'bo',
      actor_name: 'Bo Berg',
      resource_type: 'tenant',
      resource_id: admin.tenantId,
      resource_name: expect.stringMatching(/./),
      source_ip: '192.0.2.1',
      request_id: 'first',
    },
    { action: 'sign_in.failed', outcome: 'failure', reason: 'no_role', actor_id: 'cy', request_id: null },
  ])
  expect(await readFeed(other)).toEqual([])
})

test('a time in the future, of a clock that is ahead, becomes now', async () => {
  const admin = await newTenant(service)
  await report(signInOf(admin, { at: Date.now() + 86_400_000 }))
  const [event] = await readFeed(admin)
  expect(Date.parse(event?.timestamp ?? '')).toBeLessThanOrEqual(Date.now() + 1000)
})

test('repeated sign-ins are one event for each minute, address and outcome', async () => {
  const admin = await newTenant(service)
  const minute = Math.floor(noon / 60_000) * 60_000
  const at = (ms: number, given: object = {}) => signInOf(admin, { at: minute + ms, ...given })
  await report(at(0), at(1000), at(1000, { reason: 'no_role' }), at(2000, { address: '192.0.2.2' }))
  // Reports of other gateways.
  await Promise.all([report(at(59_999)), report(at(1000)), report(at(60_000))])
  expect((await readFeed(admin)).map(({ outcome, source_ip: address }) => `${outcome} ${address}`).toSorted()).toEqual([
    'failure 192.0.2.1',
    'success 192.0.2.1',
    'success 192.0.2.1',
    'success 192.0.2.2',
  ])
})

test('one person gets at most a hundred events a day for each outcome, and other people keep theirs', async () => {
  const admin = await newTenant(service)
  const flood = (from: number) =>
    Array.from({ length: 80 }, (_, at) =>
      signInOf(admin, { reason: 'person_inactive', address: `192.0.2.${from + at}` }),
    )
  for (const from of [0, 80, 160]) await report(...flood(from))
  await report(signInOf(admin), signInOf(admin, { id: 'cy' }), signInOf(admin, { reason: 'no_role' }))
  await report(signInOf(admin, { reason: 'person_inactive', at: noon - 86_400_000 }))
  const counts = Map.groupBy(await readFeed(admin), ({ actor_id: id, reason }) => `${id} ${reason}`)
  expect(Object.fromEntries([...counts].map(([name, events]) => [name, events.length]))).toEqual({
    'bo person_inactive': 101,
    'bo null': 1,
    'cy null': 1,
    'bo no_role': 1,
  })
})

test('counts that limit sign-ins are deleted after two days, and the events are kept', async () => {
  const admin = await newTenant(service)
  await report(signInOf(admin), signInOf(admin, { at: noon - 3 * 86_400_000 }))
  await service.asService.system(async (tx) => await pruneSignIns(tx, 100_000))
  const count = sql('select count(*)::int as count from keys.sign_in where tenant_id = $1', admin.tenantId)
  expect(await service.asSuperuser.system(async (tx) => await tx.query(count))).toEqual([{ count: 1 }])
  expect(await readFeed(admin)).toHaveLength(2)
})
