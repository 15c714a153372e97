import { setTimeout as delay } from 'node:timers/promises'
import { type Enforcement, type GrantableScope, revokedApiKeySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { type CallAnswer, type TestStack, operator } from '@postern/local-stack/testing'
import { type Change, type Key, type Operation, type Request, narrowedScopes } from './promises.ts'
import type { Credential, Traffic } from './traffic.ts'

/** One revocation with all its attempts. */
export interface Revocation {
  readonly change: Change
  attempts: number
  /** The enforcement in the response. */
  enforcement: Enforcement | undefined
}

/** One call that changes a key or a tenant. Unconfirmed calls are repeated. */
export interface Call {
  readonly kind: Change['kind']
  /** Id of the key or tenant. */
  readonly of: string
  readonly calledAt: number
  readonly endedAt: number
  /** 0: no response. */
  readonly status: number
}

/** Keys and tenants that change during the load. */
export interface Churn {
  readonly keys: readonly Key[]
  readonly changes: readonly Change[]
  readonly revocations: readonly Revocation[]
  /** Completed calls. */
  readonly calls: readonly Call[]
  /** Starts the changes when there are keys. */
  start(): Promise<void>
  /** Resolves when this many revocations started after `from` have returned. */
  revoked(count: number, from: number): Promise<void>
  /** Removes a key that every gateway has in memory from the changes. Returns a function that revokes it. */
  takeVictim(): Promise<() => Promise<Revocation>>
  /** Starts no further changes and waits for running ones. */
  stop(): Promise<void>
}

const monthMs = 30 * 24 * 60 * 60 * 1000
/** Keys that every gateway has in memory, so that revocations continue while gateways cannot look up new keys. */
const stockSize = 6
const lifeOfShortKeysMs = 2500
const isAccepted = ({ status }: Pick<Request, 'status'>): boolean => status >= 200 && status < 300

/** Changes keys through the keys service and observes the gateways. */
export type Changeable = Pick<TestStack, 'gateways' | 'operator' | 'createTenant' | 'createKey'>

export interface ChurnOptions {
  readonly scopes?: readonly GrantableScope[]
  readonly restMs?: number
  /** Other statuses of the keys service that cause a repetition. */
  readonly repeated?: readonly number[]
  /** Keys without some of the scopes that the load uses. */
  readonly narrow?: readonly { readonly scopes: readonly GrantableScope[]; readonly only: readonly Operation[] }[]
}

interface KeyToMake {
  readonly lifeMs?: number
  readonly scopes?: readonly GrantableScope[]
  readonly only?: readonly Operation[]
}

/**
 * Prepares two unchanged tenants and one that is suspended and resumed, each with two permanent keys with `scopes`.
 * `restMs` is the pause between changes of a kind.
 */
export async function prepareChurn(
  stack: Changeable,
  traffic: Traffic,
  { scopes = ['read:findings', 'write:findings'], restMs = 0, narrow = [], repeated = [] }: ChurnOptions = {},
): Promise<Churn> {
  const keys: Key[] = []
  const changes: Change[] = []
  const revocations: Revocation[] = []
  const calls: Call[] = []
  const stock: Promise<Credential>[] = []
  const loops: Promise<void>[] = []
  let stopped = false

  const steady = [await stack.createTenant(), await stack.createTenant()]
  const suspended = await stack.createTenant()
  for (const tenant of [...steady, suspended]) for (let count = 0; count < 2; count += 1) await makeKey(tenant.id)
  for (const given of narrow) await makeKey(tenantOfTurn(0), given)

  /** Repeats work that fails while services are down, at the pace of the load. */
  async function persist<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    for (;;) {
      const value = await attempt().catch((error: unknown) => {
        if (error instanceof UnexpectedAnswerError) throw error
        return undefined
      })
      if (value !== undefined) return value
      await traffic.ended('any request', () => true)
    }
  }

  /**
   * Returns the response unless the call must be repeated: unconfirmed, unreachable, or superseded by its own earlier
   * attempt.
   */
  function ifDone(answer: CallAnswer): CallAnswer | undefined {
    if (answer.status === 200) return answer
    if (answer.status === 503 || answer.status === 412 || repeated.includes(answer.status)) return undefined
    throw new UnexpectedAnswerError(`${answer.status} ${answer.text}`)
  }

  async function call(tenantId: string, path: string, headers?: Readonly<Record<string, string>>, body?: unknown) {
    const principal = { ...operator, tenantId }
    return await stack.operator.call(principal, body === undefined ? 'POST' : 'PATCH', path, {
      ...(headers === undefined ? {} : { headers }),
      ...(body === undefined ? {} : { body }),
    })
  }

  async function timed({ kind, of }: Change, ask: () => Promise<CallAnswer>): Promise<CallAnswer> {
    const calledAt = performance.now()
    let status = 0
    try {
      const answer = await ask()
      status = answer.status
      return answer
    } finally {
      calls.push({ kind, of, calledAt, endedAt: performance.now(), status })
    }
  }

  async function makeKey(tenantId: string, { lifeMs, ...given }: KeyToMake = {}): Promise<Credential> {
    const credential = await persist(async () => {
      const expiresAt = Date.now() + (lifeMs ?? monthMs)
      const end = lifeMs === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }
      const granted = given.scopes ?? scopes
      const made = await stack.createKey({ id: tenantId }, { scopes: granted, ...end })
      const expires = Date.parse(made.expires_at)
      const whole = { id: made.id, value: made.key, tenantId, expiresAt: expires, scopes: granted }
      return given.only === undefined ? whole : { ...whole, only: given.only }
    })
    keys.push(credential)
    traffic.add(credential)
    return credential
  }

  function tenantOfTurn(turn: number): string {
    return steady[turn % steady.length]?.id ?? ''
  }

  async function stockUp(turn: number): Promise<Credential> {
    const credential = await makeKey(tenantOfTurn(turn))
    await atEveryGateway('a new key is accepted', (request) => request.keyId === credential.id && isAccepted(request))
    return credential
  }

  async function atEveryGateway(what: string, matches: (request: Request) => boolean): Promise<void> {
    await Promise.all(
      stack.gateways.map(
        async (gateway) =>
          await traffic.ended(`${what} at ${gateway}`, (request) => request.gateway === gateway && matches(request)),
      ),
    )
  }

  function refill(): void {
    while (!stopped && stock.length < stockSize) {
      const one = stockUp(keys.length)
      // The caller receives a failure, which is otherwise ignored.
      one.catch(() => undefined)
      stock.push(one)
    }
  }

  function take(): Promise<Credential> {
    const [first] = stock.splice(0, 1)
    refill()
    return first ?? stockUp(keys.length)
  }

  function noteChange(kind: Change['kind'], of: string): Change {
    const change: Change = { kind, of, calledAt: performance.now(), returnedAt: undefined }
    changes.push(change)
    return change
  }

  /** Removes the key from the load after each gateway has rejected it. */
  function retire(credential: Credential, since: number, code: string): void {
    const isRefusal = (request: Request): boolean =>
      request.keyId === credential.id && request.startedAt > since && request.code === code
    const task = atEveryGateway(`a key is refused with ${code}`, isRefusal).then(() => traffic.remove(credential))
    // The caller of `stop` receives a failure.
    task.catch(() => undefined)
    loops.push(task)
  }

  /** Starts the next change after this one was observed somewhere. */
  async function refused(credential: Credential, code: string): Promise<void> {
    await traffic.ended(`a key is refused with ${code}`, (request) => {
      return request.keyId === credential.id && request.code === code
    })
  }

  async function revoke(credential: Credential): Promise<Revocation> {
    const change = noteChange('revoked', credential.id)
    const revocation: Revocation = { change, attempts: 0, enforcement: undefined }
    revocations.push(revocation)
    const answer = await persist(async () => {
      revocation.attempts += 1
      const path = `/api/v1/api-keys/${credential.id}/revoke`
      return ifDone(await timed(change, async () => await call(credential.tenantId, path)))
    })
    change.returnedAt = performance.now()
    revocation.enforcement = enforcementIn(answer)
    retire(credential, change.returnedAt, 'key_revoked')
    return revocation
  }

  async function revokeOne(): Promise<void> {
    const credential = await take()
    await revoke(credential)
    await refused(credential, 'key_revoked')
  }

  async function narrowOne(): Promise<void> {
    const credential = await take()
    const path = `/api/v1/api-keys/${credential.id}`
    const change = noteChange('narrowed', credential.id)
    await persist(async () => {
      const principal = { ...operator, tenantId: credential.tenantId }
      const read = ifDone(await stack.operator.call(principal, 'GET', path))
      if (read === undefined) return undefined
      const headers = { 'if-match': read.headers['etag'] ?? '' }
      const body = { scopes: narrowedScopes }
      return ifDone(await timed(change, async () => await call(credential.tenantId, path, headers, body)))
    })
    change.returnedAt = performance.now()
    retire(credential, change.returnedAt, 'insufficient_scope')
    await refused(credential, 'insufficient_scope')
  }

  async function letOneExpire(turn: number): Promise<void> {
    const credential = await makeKey(tenantOfTurn(turn), { lifeMs: lifeOfShortKeysMs })
    retire(credential, 0, 'key_expired')
    await refused(credential, 'key_expired')
  }

  async function suspendAndResume(): Promise<void> {
    for (const kind of ['suspended', 'resumed'] as const) {
      const path = `${internalPaths.tenants}/${suspended.id}/${kind === 'suspended' ? 'suspend' : 'resume'}`
      const change = noteChange(kind, suspended.id)
      await persist(async () =>
        ifDone(await timed(change, async () => await stack.operator.call(operator, 'POST', path))),
      )
      const since = performance.now()
      change.returnedAt = since
      await traffic.ended(`the tenant is ${kind}`, (request) => {
        const isExpected = kind === 'suspended' ? request.code === 'tenant_suspended' : isAccepted(request)
        return request.tenantId === suspended.id && request.startedAt > since && isExpected
      })
    }
  }

  async function loop(step: (turn: number) => Promise<void>): Promise<void> {
    for (let turn = 0; !stopped; turn += 1) {
      await step(turn)
      if (restMs > 0) await delay(restMs)
    }
  }

  return {
    keys,
    changes,
    revocations,
    calls,
    start: async () => {
      refill()
      await Promise.all(stock)
      loops.push(loop(revokeOne), loop(revokeOne), loop(narrowOne), loop(letOneExpire), loop(suspendAndResume))
      for (const task of loops) task.catch(() => undefined)
    },
    revoked: async (count, from) => {
      const isDone = (): boolean =>
        revocations.filter(({ change }) => change.calledAt > from && change.returnedAt !== undefined).length >= count
      if (!isDone()) await traffic.ended(`${count} revocations have returned`, isDone)
    },
    takeVictim: async () => {
      const credential = await take()
      return async () => await revoke(credential)
    },
    stop: async () => {
      stopped = true
      // The loops extend the list while it is read.
      for (const task of loops) await task
      await Promise.allSettled(stock)
    },
  }
}

/** A change had a response that no fault explains. */
class UnexpectedAnswerError extends Error {
  override readonly name = 'UnexpectedAnswerError'
}

function enforcementIn({ json }: CallAnswer): Enforcement | undefined {
  return revokedApiKeySchema.parse(json).enforcement ?? undefined
}
