import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { generateKey } from '@postern/api-key'
import type { KeyRecord, TenantRecord } from '@postern/contracts/internal'
import { databaseStart, fakeClocks, keyRecord, settle } from './builders.ts'
import type { Exchange } from '../src/exchange.ts'
import { type Limits, type Verdict, createRateLimit } from '../src/limit/rate-limit.ts'
import { readHeaders } from '../src/sign/read-headers.ts'
import { type Outcomes, createAuthenticate } from '../src/authenticate/authenticate.ts'
import type { TokenCheck } from '../src/authenticate/bearer.ts'
import { createDatabaseClock } from '../src/authenticate/clocks.ts'
import { createFloors } from '../src/authenticate/floors.ts'
import type { KeyEntry, Lookup } from '../src/authenticate/key-lookup.ts'
import { keyPrincipal } from '../src/authenticate/principal.ts'
import type { TenantFound } from '../src/authenticate/tenant-lookup.ts'

export const { value, hash } = generateKey()
export const address = '192.0.2.1'
export const record = keyRecord({ hash })
export const tenant: TenantRecord = {
  tenantId: record.tenantId,
  tenantName: 'Tenant',
  tenantStatus: 'active',
  tenantVersion: 1,
  tenantLimit: 6000,
  readAt: databaseStart,
}
export const token = {
  subject: 'ada',
  name: 'Ada Lund',
  tenantId: tenant.tenantId,
  roles: ['viewer' as const],
  expiresAt: 9e12,
}

export function entryOf(given: Partial<KeyRecord> = {}): KeyEntry {
  const known = { ...record, ...given }
  return { record: known, principal: keyPrincipal(known), validAt: -1 }
}

function limitsOf(): Limits {
  const source = { isHealthy: () => true, lease: async () => ({ granted: 0, left: 0, windowLeftMs: 0 }) }
  return createRateLimit({ source, clocks: fakeClocks(), gateways: () => 1 }).limitsOf(entryOf().principal)
}

export const limits = limitsOf()
export const tooMany: Verdict = { kind: 'refused', bucket: limits.tenant, retryAfterSeconds: 7 }

/** All around it answers what the test says, the last of it again and again. */
export function setUp(
  given: {
    inMemory?: KeyEntry
    lookups?: readonly (Lookup | Error)[]
    check?: TokenCheck | Error | 'no issuer'
    tenants?: readonly TenantFound[]
    /** What the one who is accepted needs, each time. */
    needs?: readonly ('done' | Limits)[]
    verdict?: Verdict
    /** That one has to wait for another key, or another token, to be looked at. */
    wait?: { readonly key?: number; readonly token?: number }
    /** Whether the token is one that was verified a moment ago. */
    isTokenKnown?: boolean
  } = {},
) {
  const {
    inMemory,
    lookups = [],
    check = 'no issuer',
    tenants = [],
    needs = ['done'],
    verdict = { kind: 'allowed' },
  } = given
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  const floors = createFloors(clocks, databaseClock)
  const found = { inMemory: 0 }
  const asked: string[] = []
  const taken: Limits[] = []
  const failed: string[] = []
  const denied: unknown[] = []
  const crashes: unknown[] = []
  const said: unknown[] = []
  /** What happens while something is asked for. */
  const meanwhile = { run: () => undefined as void }
  let asks = 0
  /** Whoever would ask for ever is told of. */
  const ask = (): void => {
    asks += 1
    if (asks > 50) throw new Error('asked without end')
  }
  const answers = <T>(list: readonly (T | Error)[], place: string): T => {
    ask()
    asked.push(place)
    meanwhile.run()
    const answer = list[Math.min(asked.filter((one) => one === place).length, list.length) - 1]
    if (answer === undefined) throw new Error(`no answer for ${place}`)
    if (answer instanceof Error) throw answer
    return answer
  }
  const attempts = (kind: 'key' | 'token') => ({
    note: (of: string) => void failed.push(`${kind} from ${of}`),
    waitSeconds: (of: string) => (of === address ? (given.wait?.[kind] ?? 0) : -1),
  })
  const authenticate = createAuthenticate({
    keys: {
      find: (of) => {
        ask()
        return of === hash ? inMemory : undefined
      },
      obtain: async (of) => answers(lookups, of),
      size: 0,
      clear: () => undefined,
    },
    tenants: { obtain: async (of) => answers(tenants, of), clear: () => undefined },
    tokens:
      check === 'no issuer'
        ? undefined
        : {
            find: () => (given.isTokenKnown === true ? token : undefined),
            verify: async (text) => answers([check], text),
          },
    floors,
    databaseClock,
    rateLimit: {
      take: async (of) => {
        ask()
        taken.push(of)
        meanwhile.run()
        return verdict
      },
    },
    failedAttempts: { keys: attempts('key'), tokens: attempts('token') },
    usage: { denied: (principal, from, reason) => void denied.push([principal.id, from, reason]) },
    found,
    onCrash: (of, error) => void crashes.push([of.requestId, error]),
  })
  let accepted = 0
  const outcomes: Outcomes = {
    accepted: (_exchange, { kind, id, tenantId, roles }, hasToken) => {
      said.push(['accepted', kind, id, tenantId, roles, hasToken])
      accepted += 1
      return needs[Math.min(accepted, needs.length) - 1] ?? 'done'
    },
    refused: (_exchange, code, answer) => void said.push([code, answer]),
    unreadable: (_exchange, code, answer) => void said.push([code, answer, 'unreadable']),
    limited: (_exchange, of) => void said.push(of),
    mayWait: () => true,
    gone: () => void said.push('gone'),
  }
  const begin = (authorization: string | undefined, target = '/api/v1/findings'): Exchange => {
    const request = new IncomingMessage(new Socket())
    const exchange: Exchange = {
      request,
      response: new ServerResponse(request),
      method: 'GET',
      target,
      requestId: 'request-id-1',
      startedAt: 0,
      headers: readHeaders(authorization === undefined ? [] : ['authorization', authorization]),
      address,
      match: { kind: 'none' },
      route: undefined,
      principal: undefined,
      key: undefined,
      tenant: undefined,
      limits: undefined,
      hasTokens: false,
      hasContent: undefined,
      span: undefined,
    }
    authenticate(exchange, outcomes)
    return exchange
  }
  const end = async (authorization: string | undefined, target?: string): Promise<Exchange> => {
    const exchange = begin(authorization, target)
    await settle()
    return exchange
  }
  return { begin, ask: end, said, asked, taken, failed, denied, crashes, found, floors, meanwhile }
}

export const withKey = `ApiKey ${value}`
export const withToken = 'Bearer some.token'
export const scim = '/scim/v2/Users'
export const acceptedKey = (hasToken: boolean) => ['accepted', 'api_key', record.id, record.tenantId, [], hasToken]
export const acceptedPerson = (hasToken: boolean) => ['accepted', 'user', 'ada', tenant.tenantId, ['viewer'], hasToken]
export const found = (given?: Partial<KeyRecord>): Lookup => ({ kind: 'found', entry: entryOf(given) })
export const foundTenant = (given: Partial<TenantRecord> = {}): TenantFound => ({
  kind: 'found',
  tenant: { ...tenant, ...given },
})
export const valid: TokenCheck = { kind: 'valid', token }

export const unavailable = [
  'auth_unavailable',
  { detail: 'The credentials can be neither accepted nor refused at the moment. Try again.', retryAfterSeconds: 1 },
]
export const invalidKey = (scheme: string) => [
  'invalid_key',
  {
    detail: 'There is no such key. Check that it is complete and unaltered.',
    headers: ['www-authenticate', `${scheme} realm="postern", error="invalid_key"`],
  },
]
export const invalidToken = (detail: string) => [
  'invalid_token',
  { detail, headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'] },
]
export const missing = (scheme: string) => [
  'missing_credentials',
  {
    detail: `Send Authorization: ${scheme} followed by one space and your key.`,
    headers: ['www-authenticate', `${scheme} realm="postern"`],
  },
]
