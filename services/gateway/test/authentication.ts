import { generateKey } from '@postern/api-key'
import type { KeyRecord, TenantRecord } from '@postern/contracts/internal'
import { databaseStart, exchangeOf, fakeClocks, keyRecord, settle } from './builders.ts'
import type { Exchange } from '../src/exchange.ts'
import { readHeaders } from '../src/sign/read-headers.ts'
import { createAuthenticate } from '../src/authenticate/authenticate.ts'
import type { TokenCheck } from '../src/authenticate/bearer.ts'
import { createDatabaseClock } from '../src/authenticate/clocks.ts'
import { createRevocationWatermarks } from '../src/authenticate/revocation-watermarks.ts'
import type { KeyEntry, Lookup } from '../src/authenticate/key-lookup.ts'
import { type Principal, keyPrincipal } from '../src/authenticate/principal.ts'
import type { PersonFound } from '../src/authenticate/person-lookup.ts'
import type { TenantFound } from '../src/authenticate/tenant-lookup.ts'
import type { Refusal } from '../src/refusal.ts'

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
  isMachine: false,
  grants: [{ tenant: tenant.tenantId, roles: ['viewer' as const] }],
  tenantFrom: '/postern_tenant',
  withoutRoles: undefined,
  inDirectory: undefined,
  expiresAt: 9e12,
  acceptedUntil: 9e12,
}

export function entryOf(given: Partial<KeyRecord> = {}): KeyEntry {
  const known = { ...record, ...given }
  return { record: known, principal: keyPrincipal(known), validAt: -1 }
}

/** Every dependency answers what the test says; the last answer repeats. */
export function setUp(
  given: {
    inMemory?: KeyEntry
    lookups?: readonly (Lookup | Error)[]
    check?: TokenCheck | Error | 'no issuer'
    tenants?: readonly TenantFound[]
    people?: readonly PersonFound[]
    isPersonOutdated?: boolean
    /** Another key or token must be judged first. */
    wait?: { readonly key?: number; readonly token?: number }
    isTokenKnown?: boolean
    unreadableWait?: number
    explainsTokens?: boolean
    noWait?: Refusal
  } = {},
) {
  const { inMemory, lookups = [], check = 'no issuer', tenants = [], people = [] } = given
  const clocks = fakeClocks()
  const databaseClock = createDatabaseClock(clocks)
  databaseClock.observe(databaseStart, clocks.monotonic())
  const watermarks = createRevocationWatermarks(clocks, databaseClock)
  const found = { inMemory: 0 }
  const asked: string[] = []
  const unreadable: string[] = []
  const failed: string[] = []
  const used: unknown[] = []
  const denied: unknown[] = []
  const refused: unknown[] = []
  const crashes: unknown[] = []
  const logged: unknown[] = []
  const said: unknown[] = []
  const meanwhile = { run: () => undefined as void }
  let asks = 0
  /** Fails instead of an endless loop. */
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
    people: {
      obtain: async ({ name }) => answers(people, name),
      isCurrent: () => given.isPersonOutdated !== true,
      clear: () => undefined,
    },
    tokens:
      check === 'no issuer'
        ? undefined
        : {
            find: () => (given.isTokenKnown === true ? token : undefined),
            verify: async (text) => answers([check], text),
          },
    watermarks,
    databaseClock,
    failedAttempts: { keys: attempts('key'), tokens: attempts('token') },
    unreadableRequests: {
      count: (of) => {
        unreadable.push(of)
        return given.unreadableWait ?? 0
      },
    },
    reserveWait: () => given.noWait,
    usage: {
      used: (principal) => void used.push([principal.id, principal.directory]),
      denied: (principal, from, reason) => void denied.push([principal.id, from, reason]),
      refused: (principal, { address: from }, code) => void refused.push([principal.id, from, code]),
    },
    found,
    keySchemes: { bearer: false, basic: false },
    explainsTokens: given.explainsTokens ?? false,
    onToken: (_of, event, refusal) => void logged.push([event, refusal]),
    onCrash: (of, error) => void crashes.push([of.requestId, error]),
  })
  const note = (outcome: Principal | Refusal): void => {
    if (outcome.kind === 'refusal') said.push([outcome.code, outcome.answer])
    else said.push(['accepted', outcome.kind, outcome.id, outcome.tenantId, outcome.roles])
  }
  const begin = (authorization: string | undefined, target = '/api/v1/findings'): Exchange => {
    const headers = readHeaders(authorization === undefined ? [] : ['authorization', authorization])
    const exchange = exchangeOf({ target, headers, address })
    const outcome = authenticate(exchange)
    if (outcome instanceof Promise) outcome.then(note, (error: unknown) => said.push(error))
    else note(outcome)
    return exchange
  }
  const end = async (authorization: string | undefined, target?: string): Promise<Exchange> => {
    const exchange = begin(authorization, target)
    await settle()
    return exchange
  }
  return {
    begin,
    ask: end,
    said,
    asked,
    unreadable,
    failed,
    used,
    denied,
    refused,
    crashes,
    logged,
    found,
    watermarks,
    meanwhile,
  }
}

export const withKey = `ApiKey ${value}`
export const withToken = 'Bearer some.token'
export const scim = '/scim/v2/Users'
export const acceptedKey = ['accepted', 'api_key', record.id, record.tenantId, []]
export const acceptedPerson = ['accepted', 'user', 'ada', tenant.tenantId, ['viewer']]
export const found = (given?: Partial<KeyRecord>): Lookup => ({ kind: 'found', entry: entryOf(given) })
export const foundTenant = (given: Partial<TenantRecord> = {}): TenantFound => ({
  kind: 'found',
  tenant: { ...tenant, ...given },
})
export const valid = { kind: 'valid', token } as const

export const unavailable = [
  'auth_unavailable',
  { detail: 'The gateway cannot verify credentials now. Try again.', retryAfterSeconds: 1 },
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
