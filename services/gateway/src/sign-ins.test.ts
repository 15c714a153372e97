import { type ProblemCode, listFindings, signInHeader, whoami } from '@postern/contracts'
import { type UsageReport, usageReportSchema } from '@postern/contracts/internal'
import { expect, test } from 'vitest'
import { exchangeOf, keyRecord, personPrincipal, scripted, silent } from '../test/builders.ts'
import { keyPrincipal, undecidedPrincipal, userPrincipal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import { createUsage } from './usage.ts'

const tenant = keyRecord()
const token = { subject: 'ada', name: 'Ada Lund', isMachine: false, expiresAt: 9e12 }
const access = [{ id: tenant.tenantId, name: tenant.tenantName, roles: ['viewer' as const] }]
const ada = personPrincipal({ ...token, roles: ['viewer'] }, tenant)
const signIn = {
  tenantId: tenant.tenantId,
  id: 'ada',
  name: 'Ada Lund',
  reason: null,
  address: '192.0.2.1',
  at: 1000,
  requestId: 'request-id-1',
}

function setUp() {
  const keys = scripted<UsageReport, void>()
  const usage = createUsage({ keys: { reportUsage: keys.call }, now: () => 1000, logger: silent })
  const ask = (given: Partial<Exchange> = {}, code?: ProblemCode, header = signInHeader): void => {
    const exchange = exchangeOf({ principal: ada, route: whoami, ...given })
    exchange.request.headers[header] = 'true'
    usage.signIn(exchange, code)
  }
  return { keys, usage, ask, reports: () => keys.calls.map((report) => usageReportSchema.parse(report).signIns) }
}

test('only the first request of a person who signs in is reported', async () => {
  const { keys, usage, ask } = setUp()
  ask({ route: listFindings })
  ask({ route: undefined })
  ask({}, undefined, 'x-other')
  ask({ principal: undefined }, 'invalid_token')
  ask({ principal: keyPrincipal(tenant) })
  ask({ principal: userPrincipal({ ...token, isMachine: true }, tenant, access, undefined) })
  // The choice of a tenant follows.
  ask({ principal: undecidedPrincipal(token, access) })
  // Says nothing of the person.
  ask({}, 'too_many_requests')
  await usage.flush()
  expect(keys.calls).toEqual([])
  ask()
  void usage.flush()
  expect(keys.calls).toEqual([{ uses: [], denials: [], signIns: [signIn] }])
})

test('a person whom the directories of several tenants refuse is reported to each of them', async () => {
  const { usage, ask, reports } = setUp()
  const second = { id: '0199aaaa-0000-7000-8000-00000000000f', name: 'Second', roles: ['viewer' as const] }
  ask({ principal: undecidedPrincipal(token, [...access, second]) }, 'person_inactive')
  void usage.flush()
  const refused = { ...signIn, reason: 'person_inactive' }
  expect(reports()).toEqual([[refused, { ...refused, tenantId: second.id }]])
})

test('a report has each person, outcome and address once, also after a failed report', async () => {
  const { keys, usage, ask, reports } = setUp()
  for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.2']) {
    ask({ address })
    ask({ address }, 'person_inactive')
  }
  ask({ principal: personPrincipal({ ...token, roles: [] }, tenant) })
  ask({ principal: personPrincipal({ ...token, subject: 'x'.repeat(300), name: '\0', roles: ['viewer'] }, tenant) })
  const failed = usage.flush()
  await keys.fail()
  await failed
  ask()
  void usage.flush()
  const expected = [
    signIn,
    { ...signIn, reason: 'person_inactive' },
    { ...signIn, address: '192.0.2.2' },
    { ...signIn, address: '192.0.2.2', reason: 'person_inactive' },
    { ...signIn, reason: 'no_role' },
    { ...signIn, id: 'x'.repeat(255), name: 'x'.repeat(255) },
  ]
  expect(reports()).toEqual([expected, expected])
})
