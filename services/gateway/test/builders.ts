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

/** The database's time when the clocks below start, in epoch milliseconds. */
export const databaseStart = 1_800_000_000_000

export interface FakeClocks extends Clocks {
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
  /** The delay of the only timer; undefined without one. */
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

/** Runs everything that waits for settled promises. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** Calls that the test answers. */
export interface Scripted<Input, Output> {
  readonly call: (input: Input) => Promise<Output>
  readonly calls: readonly Input[]
  /** Answers this call, by default the oldest unanswered one. */
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
    tokenEndsAt: undefined,
    person: undefined,
    limits: undefined,
    hasContent: undefined,
    span: undefined,
    ...given,
  }
}
