import { describe, expect, test } from 'vitest'
import {
  type Change,
  type History,
  type Request,
  costBetween,
  findViolations,
  findWrongWrites,
  isOutcomeOpen,
} from './promises.ts'

const tenantId = 'tenant-1'
const key = { id: 'key-1', tenantId, expiresAt: 1_000_000 }

function ask(given: Partial<Request> = {}): Request {
  return {
    operation: 'whoami',
    keyId: key.id,
    tenantId,
    gateway: 'g1',
    startedAt: 100,
    endedAt: 110,
    startedWall: 500_100,
    endedWall: 500_110,
    status: 200,
    code: undefined,
    externalId: undefined,
    tenantsSeen: [],
    ...given,
  }
}

function change(kind: Change['kind'], calledAt: number, returnedAt?: number): Change {
  return { kind, of: kind === 'revoked' || kind === 'narrowed' ? key.id : tenantId, calledAt, returnedAt }
}

function broken(request: Request, ...changes: Change[]): string[] {
  const history: History = { requests: [request], keys: [key], changes }
  return findViolations(history).map(({ promised }) => promised)
}

describe('the checker of the promises finds', () => {
  test('a revoked key that was accepted after the revocation had returned', () => {
    expect(broken(ask(), change('revoked', 90, 99))).toEqual(['no revoked key is accepted'])
    expect(broken(ask(), change('revoked', 90, 101))).toEqual([])
    expect(broken(ask(), change('revoked', 90))).toEqual([])
  })

  test('a narrowed key that still used a removed scope', () => {
    expect(broken(ask({ operation: 'create', status: 201 }), change('narrowed', 90, 99))).toEqual([
      'no narrowed key does what it was narrowed from',
    ])
    expect(broken(ask({ operation: 'list' }), change('narrowed', 90, 99))).toEqual([])
    expect(broken(ask({ operation: 'create', status: 201 }), change('narrowed', 90, 101))).toEqual([])
  })

  test('a key that acted beyond its scopes, or was rejected within them', () => {
    const reader = { ...key, only: ['list'] as const }
    const ofReader = (request: Request): string[] =>
      findViolations({ requests: [request], keys: [reader], changes: [] }).map(({ promised }) => promised)
    expect(ofReader(ask({ operation: 'create', status: 201 }))).toEqual(['no key does what it has no scope for'])
    expect(ofReader(ask({ operation: 'upload', status: 201 }))).toEqual(['no key does what it has no scope for'])
    for (const operation of ['whoami', 'list'] as const) expect(ofReader(ask({ operation }))).toEqual([])
    const refused = { status: 403, code: 'insufficient_scope' }
    expect(ofReader(ask({ operation: 'create', ...refused }))).toEqual([])
    expect(ofReader(ask({ operation: 'list', ...refused }))).toEqual(['no key is refused for what it is not'])
  })

  test('a full disk reported by an operation without files', () => {
    const full = { status: 507, code: 'insufficient_storage' }
    expect(broken(ask({ operation: 'upload', ...full }))).toEqual([])
    const create = ask({ operation: 'create', ...full })
    expect(broken(create)).toEqual(['no failure but that of a service that is away'])
    expect(findViolations({ requests: [create], keys: [key], changes: [], fullDisk: ['create'] })).toEqual([])
  })

  test('an accepted key that had expired or never existed', () => {
    expect(broken(ask({ startedWall: key.expiresAt + 1 }))).toEqual(['no expired key is accepted'])
    expect(broken(ask({ keyId: 'other' }))).toEqual(['no expired key is accepted'])
    expect(broken(ask({ startedWall: key.expiresAt - 1, endedWall: key.expiresAt + 9 }))).toEqual([])
  })

  test('a suspended tenant that was accepted, unless it was being resumed', () => {
    const suspended = [change('suspended', 90, 99)]
    expect(broken(ask(), ...suspended)).toEqual(['no suspended tenant is accepted'])
    expect(broken(ask(), ...suspended, change('resumed', 111, 120))).toEqual(['no suspended tenant is accepted'])
    expect(broken(ask(), ...suspended, change('resumed', 109))).toEqual([])
    expect(broken(ask(), change('suspended', 90, 101))).toEqual([])
  })

  test('a response with data of another or an unknown tenant', () => {
    const other = ['no answer holds data of another tenant']
    expect(broken(ask({ operation: 'list', tenantsSeen: [tenantId, 'tenant-2'] }))).toEqual(other)
    expect(broken(ask({ operation: 'list', tenantsSeen: ['unknown'] }))).toEqual(other)
    expect(broken(ask({ operation: 'list', tenantsSeen: [tenantId] }))).toEqual([])
  })

  test('a rejection of an active key for any reason', () => {
    const wrong = ['no key is refused for what it is not']
    for (const code of ['invalid_key', 'key_revoked', 'key_expired', undefined]) {
      expect(broken(ask({ status: 401, code }))).toEqual(wrong)
    }
    for (const code of ['tenant_suspended', 'insufficient_scope', 'address_not_allowed']) {
      expect(broken(ask({ status: 403, code }))).toEqual(wrong)
    }
  })

  test('a rejection with the wrong reason', () => {
    const wrong = ['no key is refused for what it is not']
    const revoked = change('revoked', 90, 99)
    expect(broken(ask({ status: 401, code: 'invalid_key' }), revoked)).toEqual(wrong)
    expect(broken(ask({ status: 401, code: 'key_expired' }), revoked)).toEqual(wrong)
    expect(broken(ask({ status: 401, code: 'key_revoked' }), revoked)).toEqual([])
    expect(broken(ask({ status: 401, code: 'key_revoked' }), change('revoked', 111))).toEqual(wrong)
  })

  test('a rejection within the remaining scopes of a narrowed key', () => {
    const narrowed = change('narrowed', 90, 99)
    const refusal = { status: 403, code: 'insufficient_scope' }
    expect(broken(ask({ ...refusal, operation: 'create' }), narrowed)).toEqual([])
    expect(broken(ask({ ...refusal, operation: 'list' }), narrowed)).toEqual(['no key is refused for what it is not'])
  })

  test('a rejection as expired more than 2.5 s early', () => {
    const refusal = { status: 401, code: 'key_expired' }
    expect(broken(ask({ ...refusal, endedWall: key.expiresAt - 2501 }))).toEqual([
      'no key is refused for what it is not',
    ])
    expect(broken(ask({ ...refusal, endedWall: key.expiresAt - 2499 }))).toEqual([])
  })

  test('a rejection as suspended after the tenant was resumed', () => {
    const refusal = ask({ status: 403, code: 'tenant_suspended' })
    const suspended = change('suspended', 80, 85)
    expect(broken(refusal, suspended)).toEqual([])
    expect(broken(refusal, suspended, change('resumed', 90, 101))).toEqual([])
    expect(broken(refusal, suspended, change('resumed', 90, 99))).toEqual(['no key is refused for what it is not'])
  })

  test('a failure other than an unavailable service', () => {
    for (const status of [400, 404, 422, 429, 500]) {
      expect(broken(ask({ status }))).toEqual(['no failure but that of a service that is away'])
    }
    for (const status of [0, 502, 503, 504]) expect(broken(ask({ status }))).toEqual([])
  })
})

function wrongWrites(request: Request, rows: { tenantId: string; title: string }[]): string[] {
  return findWrongWrites({ requests: [request] }, new Map([['write-1', rows]])).map(({ promised }) => promised)
}

describe('the checker of the writes finds', () => {
  const write = ask({ operation: 'create', status: 201, externalId: 'write-1' })
  const row = { tenantId, title: `of ${tenantId}` }

  test('an accepted write that was not stored', () => {
    expect(wrongWrites(write, [])).toEqual(['no accepted write is lost or doubled'])
    expect(wrongWrites(write, [row])).toEqual([])
  })

  test('a write that was stored twice, whatever the response', () => {
    expect(wrongWrites(write, [row, row])).toEqual(['no accepted write is lost or doubled'])
    expect(wrongWrites({ ...write, status: 0 }, [row, row])).toEqual(['no accepted write is lost or doubled'])
  })

  test('a write that was stored for another tenant or with its content', () => {
    expect(wrongWrites(write, [{ ...row, tenantId: 'tenant-2' }])).toEqual(['no answer holds data of another tenant'])
    expect(wrongWrites(write, [{ ...row, title: 'of tenant-2' }])).toEqual(['no answer holds data of another tenant'])
  })

  test('a rejected write that was stored', () => {
    for (const given of [
      { status: 401 },
      { status: 403 },
      { status: 507 },
      { status: 503, code: 'auth_unavailable' },
    ]) {
      expect(wrongWrites({ ...write, ...given }, [row])).toEqual(['no refused write happens'])
    }
    // It may have happened, as the response says.
    expect(wrongWrites({ ...write, status: 502, code: 'bad_gateway' }, [row])).toEqual([])
    expect(wrongWrites({ ...write, status: 502, code: 'bad_gateway' }, [])).toEqual([])
  })
})

describe('what a fault cost', () => {
  test('counts failures by status, without rejections', () => {
    const requests = [
      ask(),
      ask({ status: 0 }),
      ask({ status: 503, code: 'auth_unavailable' }),
      ask({ status: 503, code: 'auth_unavailable' }),
      ask({ status: 401, code: 'key_revoked' }),
      ask({ status: 502, startedAt: 50 }),
    ]
    const { requests: count, failed } = costBetween(requests, 100, 200)
    expect(count).toBe(5)
    expect(failed).toEqual({ 'no answer': 1, '503 auth_unavailable': 2 })
  })

  test('finds the longest time without success, with its gateway and operation', () => {
    const steady = [110, 120, 130, 140, 150, 160, 170, 180, 190].map((endedAt) => ask({ endedAt }))
    const interrupted = [110, 160, 190].map((endedAt) => ask({ endedAt, gateway: 'g2' }))
    expect(costBetween([...steady, ...interrupted], 100, 200).longestGapMs).toBe(50)
    expect(costBetween([...steady, ask({ operation: 'list', endedAt: 50 })], 100, 200).longestGapMs).toBe(100)
  })
})

describe('the outcome of a write is open', () => {
  const ended = ask({ operation: 'push', startedAt: 100, endedAt: 300, status: 502, code: 'bad_gateway' })

  test('if its caller lost access while the service carried it out', () => {
    for (const kind of ['revoked', 'narrowed', 'suspended'] as const) {
      expect(isOutcomeOpen(ended, [change(kind, 120, 140)]), kind).toBe(true)
    }
  })

  test('and not if access was lost before or after, was given back, or was that of another', () => {
    expect(isOutcomeOpen(ended, [])).toBe(false)
    expect(isOutcomeOpen(ended, [change('revoked', 90, 99)])).toBe(false)
    expect(isOutcomeOpen(ended, [change('revoked', 301, 310)])).toBe(false)
    expect(isOutcomeOpen(ended, [change('resumed', 120, 140)])).toBe(false)
    expect(isOutcomeOpen(ended, [{ ...change('revoked', 120, 140), of: 'key-2' }])).toBe(false)
  })

  test('and not for a read, nor for another answer', () => {
    const revoked = [change('revoked', 120, 140)]
    expect(isOutcomeOpen({ ...ended, operation: 'list' }, revoked)).toBe(false)
    expect(isOutcomeOpen({ ...ended, status: 503, code: 'service_unavailable' }, revoked)).toBe(false)
  })
})
