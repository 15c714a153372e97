import type { Clocks } from '../authenticate/clocks.ts'
import type { TokenLease, TokenSource } from './token-source.ts'

/** One counted limit: of a key, a person or a tenant, or of what a tenant has for people alone. */
export interface Bucket {
  readonly kind: 'api_key' | 'user' | 'tenant' | 'people'
  readonly tenantId: string
  /** Of the key or the person; the tenant's own for a tenant. */
  readonly id: string
  readonly limit: number
  /** What is enforced in the present window: the limit or, without Redis, this gateway's share of it. */
  effectiveLimit: number
  /** Value of the answer header RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers) for `effectiveLimit`. */
  policy: string
  /** Requests that this gateway may still let through in the present window. */
  tokens: number
  /** What is left in Redis for all gateways, when it was last asked. */
  left: number
  /** Until when tokens may be used, on the monotonic clock: at or before the end of the window. */
  windowEnds: number
  /** From when the window is over for certain: at or after its end. */
  windowOver: number
  /** Let through by this gateway in the present window. */
  used: number
  /** Let through in a window of its own, and not yet counted in Redis. */
  owed: number
  batch: number
  /** When Redis last failed to count for it; undefined: its last answer came. */
  failedAt: number | undefined
  readonly madeAt: number
  /** Its window was over and nothing of it was worth keeping: whoever still holds it must ask for the one of now. */
  isForgotten: boolean
}

export interface Limits {
  readonly principal: Bucket
  /** Of keys and people together. */
  readonly tenant: Bucket
  /** Of a person: what is left for people where that is used up. */
  readonly people?: Bucket
}

/** Whose requests are counted. */
export interface Caller {
  readonly kind: 'api_key' | 'user'
  /** Of the key, of the first key of its chain of rotations, or of the person. */
  readonly limitId: string
  readonly tenantId: string
  /** Requests a minute. */
  readonly limit: number
  readonly tenantLimit: number
  /** Where its limits are kept. */
  limits: Limits | undefined
}

export type Verdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'refused'; readonly bucket: Bucket; readonly retryAfterSeconds: number }

/**
 * Counts requests a minute of each key (or person) and each tenant, over all gateways.
 *
 * A window begins with a few requests that every gateway lets through by itself, 2 % of the limit over all of them, so that
 * Redis is not asked for each of the many callers that send now and then. Whoever sends more needs tokens that Redis has
 * already counted and that are void at the end of its window, fetched in batches; the first request for them tells Redis of
 * those that were let through before. What is never told is at most 2 % in each of the two windows of a gateway that may lie
 * over one of Redis's: so a limit can be passed by 4 % and no more while Redis keeps its data. At most one batch a gateway
 * (1 % of the limit) may go unused. While Redis is away each gateway enforces its share (limit ÷ gateways that hold a lease) by
 * itself, and reports what it let through as soon as Redis answers again.
 */
export interface RateLimit {
  /** The limits of a caller, which keeps them. To be asked for in the tick in which they are used. HOT PATH. */
  limitsOf(caller: Caller): Limits
  /** Takes a token of each limit if they are at hand. HOT PATH: no I/O in all but the first request of a batch. */
  tryTake(limits: Limits): boolean
  /** Takes a token of each limit, fetching more when they are used up. */
  take(limits: Limits): Promise<Verdict>
  /** The part of each limit that this gateway enforces: 1 while Redis counts for all gateways. */
  limitShare(): number
}

export const windowMs = 60_000
/** All gateways together let this part of the limit through without a token, in each window of their own. */
const freeShare = 50
/** A batch is at most this part of the limit. */
const batchShare = 100
/** Every batch that is used up doubles the next, so that rare callers cost little and busy ones seldom ask. */
const batchGrowth = 2
/** Windows that are looked at, whether they are over, for each new one. */
const looksPerNew = 4
const maxPolicies = 1000
const askAgainMs = 1000
/** Assumed while nobody says how many gateways there are: a limit is rather enforced too early than passed. */
const unknownGateways = 10

/** Of a tenant's limit the last tenth, and no more than what one person may use, is for people. */
const peopleShare = 10
const mostForPeople = 1200

/** What is kept for people, so that whoever is to revoke a key that has used all the rest up still can. */
function forPeople(tenantLimit: number): number {
  return Math.min(mostForPeople, Math.floor(tenantLimit / peopleShare))
}

/** Makes the limits of a gateway. `gateways` tells how many hold a lease now, or undefined if nobody has said. */
export function createRateLimit(options: {
  readonly source: TokenSource
  readonly clocks: Clocks
  readonly gateways: () => number | undefined
}): RateLimit {
  const { source, clocks } = options
  const gateways = (): number => Math.max(1, options.gateways() ?? unknownGateways)
  const shareOf = ({ limit }: Bucket): number => Math.ceil(limit / gateways())
  /** Requests that this gateway lets through in each window before it asks Redis. */
  const freeOf = ({ limit }: Bucket): number => Math.floor(limit / freeShare / gateways())
  const buckets = {
    api_key: new Map<string, Bucket>(),
    user: new Map<string, Bucket>(),
    tenant: new Map<string, Bucket>(),
    people: new Map<string, Bucket>(),
  } as const
  // For the walk around them: a map from which the oldest are taken away again and again becomes slow to begin with.
  const all: Bucket[] = []
  let hand = 0
  const policies = new Map<number, string>()
  const fetching = new Map<Bucket, Promise<void>>()

  // INVARIANT: of each limit there is one bucket that is not forgotten; a second one would begin with tokens of its own.
  function bucketOf(kind: Bucket['kind'], tenantId: string, id: string, limit: number): Bucket {
    const name = nameAmong({ kind, tenantId, id })
    const known = buckets[kind].get(name)
    if (known !== undefined && known.limit === limit) return known
    forgetSome()
    const bucket: Bucket = {
      kind,
      tenantId,
      id,
      limit,
      effectiveLimit: limit,
      policy: policyOf(limit),
      tokens: 0,
      left: limit,
      windowEnds: -Infinity,
      windowOver: -Infinity,
      used: 0,
      owed: 0,
      batch: 1,
      failedAt: undefined,
      madeAt: clocks.monotonic(),
      isForgotten: false,
    }
    buckets[kind].set(name, bucket)
    all.push(bucket)
    return bucket
  }

  function policyOf(limit: number): string {
    const known = policies.get(limit)
    if (known !== undefined) return known
    const policy = `"caller";q=${limit};w=${windowMs / 1000}`
    if (policies.size < maxPolicies) policies.set(limit, policy)
    return policy
  }

  /** Looks at a few in turn each time that a new one comes: there are never many more than were used of late. */
  function forgetSome(): void {
    const now = clocks.monotonic()
    for (let looks = 0; looks < looksPerNew; looks += 1) {
      hand = hand + 1 < all.length ? hand + 1 : 0
      const bucket = all[hand]
      const last = all.at(-1)
      if (bucket === undefined || last === undefined || isOfUse(bucket, now)) continue
      bucket.isForgotten = true
      const ofKind = buckets[bucket.kind]
      const name = nameAmong(bucket)
      if (ofKind.get(name) === bucket) ofKind.delete(name)
      all[hand] = last
      all.pop()
    }
  }

  function isOfUse(bucket: Bucket, now: number): boolean {
    // One that has just been made has no window yet.
    return now < Math.max(bucket.windowOver, bucket.madeAt + windowMs) || fetching.has(bucket)
  }

  function current(bucket: Bucket): Bucket {
    return bucket.isForgotten ? bucketOf(bucket.kind, bucket.tenantId, bucket.id, bucket.limit) : bucket
  }

  /** Creating one bucket may remove another whose window is over. A new bucket stays for a window, so the loop ends. */
  function combineLimits(findPrincipal: () => Bucket, findTenant: () => Bucket, findPeople?: () => Bucket): Limits {
    for (;;) {
      const limits = {
        principal: findPrincipal(),
        tenant: findTenant(),
        ...(findPeople === undefined ? {} : { people: findPeople() }),
      }
      if (!isForgotten(limits)) return limits
    }
  }

  function isSpent(bucket: Bucket, now: number): boolean {
    if (now >= bucket.windowEnds || bucket.tokens > 0 || bucket.left > 0) return false
    // Whether Redis has more is not known since it failed: it is asked again if it answers, but not in each request.
    return bucket.failedAt === undefined || now < bucket.failedAt + askAgainMs || !source.isHealthy()
  }

  function isEmpty(bucket: Bucket, now: number): boolean {
    // HOT PATH: the end is never after the moment from which the window is over, which need not be looked at then.
    if (now < bucket.windowEnds) return bucket.tokens === 0
    if (now < bucket.windowOver || freeOf(bucket) === 0) return true
    startOwnWindow(bucket, now)
    return false
  }

  async function fill(bucket: Bucket): Promise<void> {
    const running = fetching.get(bucket)
    if (running !== undefined) {
      await running
      return
    }
    const work = fetchTokens(bucket).finally(() => fetching.delete(bucket))
    fetching.set(bucket, work)
    await work
  }

  async function fetchTokens(bucket: Bucket): Promise<void> {
    const sent = clocks.monotonic()
    const most = Math.max(1, Math.floor(bucket.limit / batchShare))
    bucket.batch = Math.min(most, sent < bucket.windowEnds ? bucket.batch * batchGrowth : bucket.batch)
    let lease: TokenLease
    try {
      lease = await source.lease(nameOf(bucket), bucket.limit, bucket.batch + bucket.owed)
    } catch {
      takeShare(bucket, sent)
      return
    }
    const received = clocks.monotonic()
    // From the moment of asking: the tokens are void here before Redis begins to count the next window.
    const ends = sent + lease.windowLeftMs
    if (received >= ends) return
    if (sent >= bucket.windowEnds) startWindow(bucket)
    enforce(bucket, bucket.limit)
    bucket.failedAt = undefined
    bucket.tokens += Math.max(0, lease.granted - bucket.owed)
    bucket.owed = 0
    bucket.left = lease.left
    bucket.windowEnds = ends
    bucket.windowOver = received + lease.windowLeftMs
  }

  /** Without Redis: what is left of this gateway's own share. Redis is told of it later. */
  function takeShare(bucket: Bucket, now: number): void {
    if (now >= bucket.windowEnds) startOwnWindow(bucket, now)
    enforce(bucket, shareOf(bucket))
    bucket.failedAt = now
    const more = Math.max(0, bucket.effectiveLimit - bucket.used - bucket.tokens)
    bucket.tokens += more
    bucket.owed += more
    bucket.left = 0
  }

  function enforce(bucket: Bucket, limit: number): void {
    if (bucket.effectiveLimit === limit) return
    bucket.effectiveLimit = limit
    bucket.policy = policyOf(limit)
  }

  function startWindow(bucket: Bucket): void {
    bucket.tokens = 0
    bucket.used = 0
    bucket.owed = 0
    bucket.left = bucket.limit
    enforce(bucket, bucket.limit)
  }

  /** One that Redis does not know of yet. */
  function startOwnWindow(bucket: Bucket, now: number): void {
    startWindow(bucket)
    if (!source.isHealthy()) enforce(bucket, shareOf(bucket))
    const free = Math.min(freeOf(bucket), bucket.effectiveLimit)
    bucket.tokens = free
    bucket.owed = free
    bucket.left = bucket.effectiveLimit - free
    bucket.windowEnds = now + windowMs
    bucket.windowOver = bucket.windowEnds
  }

  function refusalOf({ principal, tenant, people }: Limits, now: number): Verdict | undefined {
    const isTenantSpent = isSpent(tenant, now) && (people === undefined || isSpent(people, now))
    const bucket = isSpent(principal, now) ? principal : isTenantSpent ? tenant : undefined
    if (bucket === undefined) return undefined
    return { kind: 'refused', bucket, retryAfterSeconds: Math.max(1, Math.ceil((bucket.windowEnds - now) / 1000)) }
  }

  /** Where the next token of the tenant comes from: what is kept for people is touched last. */
  function sourceOf({ tenant, people }: Limits, now: number): Bucket {
    return people !== undefined && isEmpty(tenant, now) && isSpent(tenant, now) ? people : tenant
  }

  function tryTake(limits: Limits): boolean {
    const now = clocks.monotonic()
    const { principal } = limits
    const shared = sourceOf(limits, now)
    if (isEmpty(principal, now) || isEmpty(shared, now)) return false
    principal.tokens -= 1
    shared.tokens -= 1
    principal.used += 1
    shared.used += 1
    return true
  }

  return {
    limitShare: () => (source.isHealthy() ? 1 : 1 / gateways()),
    limitsOf: (caller) => {
      const known = caller.limits
      if (known !== undefined && !isForgotten(known)) return known
      const { kind, tenantId, limitId, tenantLimit } = caller
      const kept = forPeople(tenantLimit)
      caller.limits = combineLimits(
        () => bucketOf(kind, tenantId, limitId, caller.limit),
        () => bucketOf('tenant', tenantId, tenantId, tenantLimit - kept),
        kind === 'user' && kept > 0 ? () => bucketOf('people', tenantId, tenantId, kept) : undefined,
      )
      return caller.limits
    },
    tryTake,
    take: async ({ principal, tenant, people }) => {
      for (;;) {
        const limits = combineLimits(
          () => current(principal),
          () => current(tenant),
          people === undefined ? undefined : () => current(people),
        )
        if (tryTake(limits)) return { kind: 'allowed' }
        const now = clocks.monotonic()
        const refusal = refusalOf(limits, now)
        if (refusal !== undefined) return refusal
        // One that is not empty keeps its tokens; each round either grants, refuses, or starts a window.
        const empty = [limits.principal, sourceOf(limits, now)].filter((bucket) => isEmpty(bucket, now))
        await Promise.all(empty.map(fill))
      }
    },
  }
}

/** What a caller is told whose request is refused for want of a token of this limit. */
export function limitInWords(
  bucket: Pick<Bucket, 'kind' | 'limit' | 'effectiveLimit'>,
  caller: Pick<Caller, 'kind' | 'tenantLimit'> | undefined,
): string {
  const { limit, effectiveLimit } = bucket
  const text = fullLimitInWords(bucket, caller)
  if (effectiveLimit >= limit) return text
  return `${text} This gateway enforces its share of ${effectiveLimit}, because the shared counter does not answer.`
}

function fullLimitInWords(
  { kind, limit }: Pick<Bucket, 'kind' | 'limit'>,
  caller: Pick<Caller, 'kind' | 'tenantLimit'> | undefined,
): string {
  switch (kind) {
    case 'api_key':
      return `The limit of this key is ${limit} requests a minute.`
    case 'user':
      return `The limit of a person is ${limit} requests a minute.`
    case 'tenant':
    case 'people':
      return caller?.kind === 'user'
        ? `The limit of this tenant is ${caller.tenantLimit} requests a minute.`
        : `The limit of all keys of this tenant together is ${limit} requests a minute.`
    default:
      return kind satisfies never
  }
}

function isForgotten({ principal, tenant, people }: Limits): boolean {
  return principal.isForgotten || tenant.isForgotten || people?.isForgotten === true
}

/** Subjects are unique within an issuer alone; ids of keys and tenants are everywhere. */
function nameAmong({ kind, tenantId, id }: Pick<Bucket, 'kind' | 'tenantId' | 'id'>): string {
  return kind === 'user' ? `${tenantId} ${id}` : id
}

/** In Redis. */
function nameOf({ kind, tenantId, id }: Bucket): string {
  return kind === 'tenant' || kind === 'people' ? `{${tenantId}}:${kind}` : `{${tenantId}}:${kind}:${id}`
}
