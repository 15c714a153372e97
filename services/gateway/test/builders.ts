import { randomUUID } from 'node:crypto'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { hashKey } from '@postern/api-key'
import type { Role } from '@postern/contracts'
import type { KeyRecord, LeaseAnswer, TenantRecord } from '@postern/contracts/internal'
import { createLogger } from '@postern/service-kit'
import type { Clocks } from '../src/authenticate/clocks.ts'
import type { Timers } from '../src/authenticate/lease.ts'
import { type Principal, userPrincipal } from '../src/authenticate/principal.ts'
import type { Exchange } from '../src/exchange.ts'
import { readHeaders } from '../src/sign/read-headers.ts'

/** A person with these roles in one tenant. */
export function personPrincipal(
  token: Omit<Parameters<typeof userPrincipal>[0], 'isMachine'> & { readonly roles: readonly Role[] },
  tenant: TenantRecord,
): Principal {
  return userPrincipal(
    { ...token, isMachine: false },
    tenant,
    [{ id: tenant.tenantId, name: tenant.tenantName, roles: token.roles }],
    undefined,
  )
}

export const silent = createLogger({ service: 'test', level: 'silent' })

/** What the database's clock shows when the clocks below begin, in milliseconds since the epoch. */
export const databaseStart = 1_800_000_000_000

export interface FakeClocks extends Clocks {
  /** Moves both clocks, as time does. */
  pass(ms: number): void
  jumpWall(ms: number): void
  /** Moves only the monotonic clock. */
  jumpMonotonic(ms: number): void
}

export function fakeClocks(): FakeClocks {
  let monotonic = 1_000_000
  let wall = databaseStart
  return {
    monotonic: () => monotonic,
    wall: () => wall,
    pass: (ms) => {
      monotonic += ms
      wall += ms
    },
    jumpWall: (ms) => void (wall += ms),
    jumpMonotonic: (ms) => void (monotonic += ms),
  }
}

/** Timers that run only when told to. */
export interface FakeTimers extends Timers {
  /** Milliseconds of the one timer that is set; undefined when none is. */
  due(): number | undefined
  fire(): void
}

export function fakeTimers(): FakeTimers {
  let set: { readonly ms: number; readonly task: () => void } | undefined
  return {
    after: (ms, task) => {
      const timer = { ms, task }
      set = timer
      return () => {
        if (set === timer) set = undefined
      }
    },
    due: () => set?.ms,
    fire: () => {
      const timer = set
      set = undefined
      timer?.task()
    },
  }
}

/** Lets everything that waits for a settled promise run. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** Calls to a far end, each answered by the test. */
export interface Scripted<Input, Output> {
  readonly call: (input: Input) => Promise<Output>
  readonly calls: readonly Input[]
  /** Answers the call with this number, the oldest unanswered by default. */
  answer(output: Output): Promise<void>
  fail(error?: Error): Promise<void>
  readonly waiting: () => number
}

export function scripted<Input, Output>(): Scripted<Input, Output> {
  const calls: Input[] = []
  const open: { resolve: (output: Output) => void; reject: (error: Error) => void }[] = []
  return {
    call: async (input) => {
      calls.push(input)
      const { promise, resolve, reject } = Promise.withResolvers<Output>()
      open.push({ resolve, reject })
      return await promise
    },
    calls,
    answer: async (output) => {
      open.shift()?.resolve(output)
      await settle()
    },
    fail: async (error = new Error('no answer')) => {
      open.shift()?.reject(error)
      await settle()
    },
    waiting: () => open.length,
  }
}

export function leaseAnswer(given: Partial<LeaseAnswer> = {}): LeaseAnswer {
  return { granted: true, revocations: [], cursor: 0, mark: null, reset: false, now: databaseStart, ...given }
}

let count = 0

/** An active key that was read just now. */
export function keyRecord(given: Partial<KeyRecord> = {}): KeyRecord {
  count += 1
  return {
    hash: hashKey(`key ${count}`),
    id: randomUUID(),
    tenantId: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
    tenantName: 'Tenant',
    tenantStatus: 'active',
    tenantVersion: 1,
    label: 'label',
    lastFour: 'abcd',
    scopes: ['read:findings'],
    allowedAddresses: [],
    expiresAt: databaseStart + 86_400_000,
    revoked: false,
    version: 1,
    readAt: databaseStart,
    keyLimit: 600,
    tenantLimit: 6000,
    ...given,
  }
}

/** A request that has just arrived, over a connection that goes nowhere. */
export function exchangeOf(given: Partial<Exchange> = {}): Exchange {
  const request = new IncomingMessage(new Socket())
  const { match = { kind: 'none' } } = given
  return {
    request,
    response: new ServerResponse(request),
    method: 'GET',
    target: '/api/v1/findings',
    requestId: 'request-id-1',
    basePath: '',
    startedAt: 0,
    headers: readHeaders([]),
    address: '192.0.2.1',
    fault: undefined,
    match,
    route: match.kind === 'route' ? match.route : undefined,
    principal: undefined,
    key: undefined,
    tenant: undefined,
    person: undefined,
    limits: undefined,
    hasTokens: false,
    hasContent: undefined,
    span: undefined,
    ...given,
  }
}
