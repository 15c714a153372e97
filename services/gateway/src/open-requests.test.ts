import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { type ProblemCode, type Upstream, routeTable } from '@postern/contracts'
import { expect, test } from 'vitest'
import { databaseStart, fakeClocks, keyRecord, settle } from '../test/builders.ts'
import { createDatabaseClock } from './authenticate/clocks.ts'
import { createRevocationWatermarks } from './authenticate/revocation-watermarks.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import { type OpenRequest, checkOpenRequestsEveryMs, createOpenRequests } from './open-requests.ts'
import { readHeaders } from './sign/read-headers.ts'

/** Requests of one key, whose revocation has arrived when `revoke` has returned. */
function setUp() {
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const record = keyRecord()
  const key = { record, principal: keyPrincipal(record), validAt: -1 }
  const ended: (readonly [string, ProblemCode])[] = []
  let hasLease = true
  let isReachable = true
  const requests = createOpenRequests({
    lease: { isHeld: () => hasLease },
    watermarks,
    clocks,
    databaseClock,
    keys: {
      obtain: async () => await Promise.resolve(isReachable ? { kind: 'found', entry: key } : { kind: 'unavailable' }),
    },
    tenants: { obtain: async () => await Promise.resolve({ kind: 'unavailable' }) },
    people: { obtain: async () => await Promise.resolve({ kind: 'unavailable' }), isCurrent: () => false },
    onEnded: ({ requestId }, code) => void ended.push([requestId, code]),
    onFailure: (error) => {
      throw error
    },
  })

  function open(
    method: string,
    hasArrivedWhole: boolean,
    upstream?: Upstream,
    caller: Pick<Exchange, 'key' | 'tenant' | 'tokenEndsAt'> = { key, tenant: undefined, tokenEndsAt: undefined },
  ): OpenRequest {
    const request = new IncomingMessage(new Socket())
    request.complete = hasArrivedWhole
    const exchange: Exchange = {
      request,
      response: new ServerResponse(request),
      method,
      target: '/api/v1/findings',
      requestId: `${method} ${hasArrivedWhole ? 'whole' : 'in part'}`,
      basePath: '',
      startedAt: clocks.monotonic(),
      headers: readHeaders([]),
      address: '192.0.2.1',
      fault: undefined,
      match: { kind: 'none' },
      route: routeTable.find((route) => route.upstream === upstream),
      principal: key.principal,
      ...caller,
      person: undefined,
      limits: undefined,
      hasContent: undefined,
      span: undefined,
    }
    const opened = {
      exchange,
      checkedAt: 0,
      checkedRound: 0,
      openIndex: -1,
      end: () => undefined,
      abandon: () => undefined,
    }
    requests.add(opened)
    return opened
  }

  /** Of a person, whose token is accepted for so long. */
  function openWithToken(method: string, hasArrivedWhole: boolean, acceptedForMs: number): OpenRequest {
    const tokenEndsAt = clocks.wall() + acceptedForMs
    return open(method, hasArrivedWhole, undefined, { key: undefined, tenant: record, tokenEndsAt })
  }

  return {
    clocks,
    requests,
    ended,
    openWithToken,
    tenantId: record.tenantId,
    open,
    loseLease: (): void => void (hasLease = false),
    cutOffKeys: (): void => void (isReachable = false),
    revoke: (): void => {
      watermarks.apply({ kind: 'key', seq: 1, hash: record.hash, version: 2, revoked: true })
      requests.check()
    },
  }
}

test.each(['POST', 'PUT', 'PATCH', 'DELETE'])(
  'a %s that had arrived whole when its key was revoked may finish for 1.5 s, then ends with an unknown outcome',
  (method) => {
    const { clocks, requests, ended, open, revoke } = setUp()
    open(method, true)
    revoke()
    clocks.pass(1500)
    requests.check()
    expect(ended).toEqual([])
    clocks.pass(1)
    requests.check()
    expect(ended).toEqual([[`${method} whole`, 'bad_gateway']])
  },
)

test('the 1.5 s begin when the caller was last known to be allowed', () => {
  const { clocks, requests, ended, open, revoke } = setUp()
  open('POST', true)
  clocks.pass(5000)
  requests.check()
  clocks.pass(1000)
  revoke()
  clocks.pass(500)
  requests.check()
  expect(ended).toEqual([])
  clocks.pass(1)
  requests.check()
  expect(ended).toEqual([['POST whole', 'bad_gateway']])
})

test('a change that is already answered is not ended by a revocation', () => {
  const { clocks, requests, ended, open, revoke } = setUp()
  const answered = open('POST', true)
  revoke()
  requests.remove(answered)
  clocks.pass(10_000)
  requests.check()
  expect(ended).toEqual([])
})

test.each([
  ['GET', true],
  ['HEAD', true],
  ['POST', false],
  ['PATCH', false],
] as const)(
  'a %s is refused at once when its key is revoked, if it cannot have changed anything',
  (method, isWhole) => {
    const { ended, open, revoke } = setUp()
    open(method, isWhole)
    revoke()
    expect(ended.map(([, code]) => code)).toEqual(['key_revoked'])
  },
)

test('requests of a valid key are not ended, however long they take', async () => {
  const { clocks, requests, ended, open } = setUp()
  open('GET', true)
  open('POST', true)
  for (let minute = 0; minute < 10; minute += 1) {
    clocks.pass(60_000)
    requests.check()
    await settle()
  }
  expect(ended).toEqual([])
})

test('open requests show which tenant uses which connection, until their responses are complete', () => {
  const { open, requests, tenantId } = setUp()
  const [first, second] = [open('GET', true), open('GET', true)]
  requests.remove(second)
  expect([...requests.findTenants()]).toEqual([[first.exchange.request.socket, tenantId]])
})

test('a process that was frozen confirms its unanswered requests before it ends any', async () => {
  const { clocks, requests, ended, open, loseLease } = setUp()
  open('GET', true)
  open('POST', true)
  loseLease()
  clocks.pass(3000)
  requests.check()
  await settle()
  clocks.pass(checkOpenRequestsEveryMs)
  requests.check()
  expect(ended).toEqual([])
})

test('a process that was frozen ends its requests at the next check if they are not confirmed', async () => {
  const { clocks, requests, ended, open, loseLease, cutOffKeys } = setUp()
  open('GET', true)
  loseLease()
  cutOffKeys()
  clocks.pass(3000)
  requests.check()
  await settle()
  expect(ended).toEqual([])
  clocks.pass(checkOpenRequestsEveryMs)
  requests.check()
  expect(ended).toEqual([['GET whole', 'auth_unavailable']])
})

test('a process that was frozen immediately ends unconfirmed requests whose response has begun', () => {
  const { clocks, requests, ended, open, loseLease } = setUp()
  const { exchange } = open('GET', true)
  exchange.response.flushHeaders()
  loseLease()
  clocks.pass(3000)
  requests.check()
  expect(ended).toEqual([['GET whole', 'auth_unavailable']])
})

test.each([
  ['a read ends', 'GET', true, 'findings', true],
  ['a change that has arrived in part ends', 'POST', false, 'findings', true],
  ['evidence ends, even if it has arrived whole,', 'POST', true, 'evidence', true],
  ['a change that has arrived whole continues', 'POST', true, 'findings', false],
] as const)('%s if nobody confirms its caller for 1.5 s', async (_title, method, hasArrivedWhole, upstream, ends) => {
  const { clocks, requests, ended, open, loseLease, cutOffKeys } = setUp()
  open(method, hasArrivedWhole, upstream)
  loseLease()
  cutOffKeys()
  for (let passed = 0; passed < 1500; passed += checkOpenRequestsEveryMs) {
    clocks.pass(checkOpenRequestsEveryMs)
    requests.check()
    await settle()
  }
  expect(ended).toEqual([])
  clocks.pass(1)
  requests.check()
  expect(ended.length).toBe(ends ? 1 : 0)
})

test('requests of a person end at the first check after the token has expired, and those with a later token continue', () => {
  const { clocks, requests, ended, openWithToken } = setUp()
  openWithToken('GET', true, 60_000)
  openWithToken('PUT', false, 60_000)
  openWithToken('GET', true, 60_001)
  clocks.pass(59_999)
  requests.check()
  expect(ended).toEqual([])
  clocks.pass(1)
  requests.check()
  expect(ended).toEqual([
    ['GET whole', 'invalid_token'],
    ['PUT in part', 'invalid_token'],
  ])
})

test('a change of a person that had arrived whole when the token expired may finish for 1.5 s', () => {
  const { clocks, requests, ended, openWithToken } = setUp()
  openWithToken('POST', true, 60_000)
  clocks.pass(59_999)
  requests.check()
  clocks.pass(1500)
  requests.check()
  expect(ended).toEqual([])
  clocks.pass(1)
  requests.check()
  expect(ended).toEqual([['POST whole', 'bad_gateway']])
})
