/**
 * The promises under faults, checked over all requests and answers. Times are on the monotonic clock of the process
 * that sent them; only expiry is on the wall clock.
 */

export type Operation = 'whoami' | 'list' | 'create' | 'entities' | 'push' | 'upload' | 'connectors'

/** The scopes of a narrowed key, and its allowed operations. */
export const narrowedScopes = ['read:findings'] as const
const left: ReadonlySet<Operation> = new Set(['whoami', 'list'])

/** One request of a tenant's key, and what came of it. */
export interface Request {
  readonly operation: Operation
  readonly keyId: string
  readonly tenantId: string
  readonly gateway: string
  readonly startedAt: number
  readonly endedAt: number
  /** Milliseconds since the epoch. */
  readonly startedWall: number
  readonly endedWall: number
  /** 0: no answer, or one that broke off. */
  readonly status: number
  /** The problem code of a refusal. */
  readonly code: string | undefined
  /** The problem detail of a refusal. */
  readonly detail?: string | undefined
  /** Of what was to be created. */
  readonly externalId: string | undefined
  /** Whose data the answer held. */
  readonly tenantsSeen: readonly string[]
}

/** A key of the load. */
export interface Key {
  readonly id: string
  readonly tenantId: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /** All that it has scopes for. Default: everything that the load does. */
  readonly only?: readonly Operation[]
  /** As created. */
  readonly scopes?: readonly string[]
}

/** A change that takes something away, or gives it back (`resumed`): of a key, or of a whole tenant. */
export interface Change {
  readonly kind: 'revoked' | 'narrowed' | 'suspended' | 'resumed'
  /** Id of the key or of the tenant. */
  readonly of: string
  /** When it was first asked for. */
  readonly calledAt: number
  /** When it had first returned success; undefined while it has not. */
  returnedAt: number | undefined
}

export interface History {
  readonly requests: readonly Request[]
  readonly keys: readonly Key[]
  /** In the order of the requests. */
  readonly changes: readonly Change[]
  /** Operations that may be answered 507, because their disk was full. Default: uploads. */
  readonly fullDisk?: readonly Operation[]
}

export type Promised =
  | 'no revoked key is accepted'
  | 'no key does what it has no scope for'
  | 'no narrowed key does what it was narrowed from'
  | 'no expired key is accepted'
  | 'no suspended tenant is accepted'
  | 'no answer holds data of another tenant'
  | 'no key is refused for what it is not'
  | 'no failure but that of a service that is away'
  | 'no accepted write is lost or doubled'
  | 'no refused write happens'

export interface Violation {
  readonly promised: Promised
  readonly request: Request
}

/** An expired key may be refused this much early: the time an answer about the database's clock may take (README of authenticate). */
const earlyExpiryMs = 2500

const isAccepted = ({ status }: Request): boolean => status >= 200 && status < 300

/** Every request of the history that breaks a promise. */
export function findViolations({ requests, keys, changes, fullDisk = ['upload'] }: History): Violation[] {
  const keyOf = new Map(keys.map((key) => [key.id, key]))
  const changesOf = Map.groupBy(changes, ({ of }) => of)
  return requests.flatMap((request) => {
    const ofKey = changesOf.get(request.keyId) ?? []
    const ofTenant = changesOf.get(request.tenantId) ?? []
    const key = keyOf.get(request.keyId)
    if (request.status === 507 && fullDisk.includes(request.operation)) return []
    const promised = isAccepted(request)
      ? brokenByAccepting(request, key, ofKey, ofTenant)
      : brokenByRefusing(request, key, ofKey, ofTenant)
    return promised.map((broken) => ({ promised: broken, request }))
  })
}

/** Whether the key never had the scope for the operation. Every key may call whoami. */
function lacks(key: Key | undefined, operation: Operation): boolean {
  return key?.only !== undefined && operation !== 'whoami' && !key.only.includes(operation)
}

function brokenByAccepting(
  request: Request,
  key: Key | undefined,
  ofKey: readonly Change[],
  ofTenant: readonly Change[],
): Promised[] {
  const { operation, tenantId, tenantsSeen, startedAt, startedWall } = request
  const broken: Promised[] = []
  const isAfter = (kind: Change['kind']): boolean =>
    ofKey.some((change) => change.kind === kind && startedAt > (change.returnedAt ?? Infinity))
  if (isAfter('revoked')) broken.push('no revoked key is accepted')
  if (!left.has(operation) && isAfter('narrowed')) broken.push('no narrowed key does what it was narrowed from')
  if (lacks(key, operation)) broken.push('no key does what it has no scope for')
  if (key === undefined || startedWall > key.expiresAt) broken.push('no expired key is accepted')
  if (wasSuspendedThroughout(request, ofTenant)) broken.push('no suspended tenant is accepted')
  if (tenantsSeen.some((seen) => seen !== tenantId)) broken.push('no answer holds data of another tenant')
  return broken
}

/** Suspended before the request began, and nobody had asked to resume when it had ended. */
function wasSuspendedThroughout({ startedAt, endedAt }: Request, ofTenant: readonly Change[]): boolean {
  return ofTenant.some(
    (change, index) =>
      change.kind === 'suspended' &&
      startedAt > (change.returnedAt ?? Infinity) &&
      endedAt < (ofTenant[index + 1]?.calledAt ?? Infinity),
  )
}

/** Whether the tenant may have been suspended during the request. */
function mayHaveBeenSuspended({ startedAt, endedAt }: Request, ofTenant: readonly Change[]): boolean {
  return ofTenant.some(
    ({ kind, calledAt }, index) =>
      kind === 'suspended' && calledAt < endedAt && startedAt < (ofTenant[index + 1]?.returnedAt ?? Infinity),
  )
}

function brokenByRefusing(
  request: Request,
  key: Key | undefined,
  ofKey: readonly Change[],
  ofTenant: readonly Change[],
): Promised[] {
  const { status, code, operation, endedAt, endedWall } = request
  const wasCalled = (kind: Change['kind']): boolean =>
    ofKey.some((change) => change.kind === kind && change.calledAt < endedAt)
  const isTrue = ((): boolean => {
    switch (`${status} ${code}`) {
      case '401 key_revoked':
        return wasCalled('revoked')
      case '401 key_expired':
        return key !== undefined && endedWall > key.expiresAt - earlyExpiryMs
      case '403 tenant_suspended':
        return mayHaveBeenSuspended(request, ofTenant)
      case '403 insufficient_scope':
        return lacks(key, operation) || (!left.has(operation) && wasCalled('narrowed'))
      default:
        return false
    }
  })()
  if (status === 401 || status === 403) return isTrue ? [] : ['no key is refused for what it is not']
  return [0, 502, 503, 504].includes(status) ? [] : ['no failure but that of a service that is away']
}

/** Returns writes whose stored state contradicts the answer. `stored` has the rows by external id. */
export function findWrongWrites(
  { requests }: Pick<History, 'requests'>,
  stored: ReadonlyMap<string, readonly { readonly tenantId: string; readonly title: string }[]>,
): Violation[] {
  return requests.flatMap((request): Violation[] => {
    if (request.externalId === undefined) return []
    const found = stored.get(request.externalId) ?? []
    const isOurs = found.every(({ tenantId, title }) => tenantId === request.tenantId && title.includes(tenantId))
    if (!isOurs) return [{ promised: 'no answer holds data of another tenant', request }]
    if (found.length > 1 || (isAccepted(request) && found.length === 0)) {
      return [{ promised: 'no accepted write is lost or doubled', request }]
    }
    const wasRefused = [401, 403, 507].includes(request.status) || request.code === 'auth_unavailable'
    return wasRefused && found.length > 0 ? [{ promised: 'no refused write happens', request }] : []
  })
}

/** What a fault cost, over the requests that began in [from, to]. */
export interface Cost {
  readonly requests: number
  /** Requests that failed, by status; refusals are not failures. */
  readonly failed: Readonly<Record<string, number>>
  /** The longest time without a success of one operation at one gateway, in milliseconds. */
  readonly longestGapMs: number
}

/**
 * Whether a write was answered 502 because its caller lost access while a service carried it out. After 1.5 s the gateway
 * says that the outcome is open (SECURITY.md, open requests), which is no failure.
 */
export function isOutcomeOpen(request: Request, changes: readonly Change[]): boolean {
  const { operation, status, code, startedAt, endedAt, keyId, tenantId } = request
  const isWrite = operation === 'create' || operation === 'push' || operation === 'upload'
  return (
    isWrite &&
    `${status} ${code}` === '502 bad_gateway' &&
    changes.some(
      ({ kind, of, calledAt, returnedAt }) =>
        kind !== 'resumed' &&
        (of === keyId || of === tenantId) &&
        calledAt < endedAt &&
        startedAt < (returnedAt ?? Infinity),
    )
  )
}

/** Counts what failed between two moments, and for how long nothing of a kind succeeded. */
export function costBetween(requests: readonly Request[], from: number, to: number): Cost {
  const within = requests.filter(({ startedAt }) => startedAt >= from && startedAt <= to)
  const failed: Record<string, number> = {}
  for (const { status, code } of within) {
    if (status !== 0 && status < 500) continue
    const name = status === 0 ? 'no answer' : `${status} ${code ?? ''}`.trimEnd()
    failed[name] = (failed[name] ?? 0) + 1
  }
  const streams = Map.groupBy(requests, ({ gateway, operation }) => `${gateway} ${operation}`)
  const gaps = [...streams.values()].map((stream) => {
    const successes = stream.filter(
      (request) => isAccepted(request) && request.endedAt >= from && request.endedAt <= to,
    )
    const times = [from, ...successes.map(({ endedAt }) => endedAt), to]
    return Math.max(...times.slice(1).map((time, index) => time - (times[index] ?? time)))
  })
  return { requests: within.length, failed, longestGapMs: Math.max(0, ...gaps) }
}
