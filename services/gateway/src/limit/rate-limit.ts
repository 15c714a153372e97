import { LRUCache } from 'lru-cache'
import type { Clocks } from '../authenticate/clocks.ts'
import type { Principal } from '../authenticate/principal.ts'
import type { TokenLease, TokenSource } from './token-source.ts'

/** One counted limit: of a key, a person or a tenant. */
export interface Bucket {
  readonly name: string
  readonly limit: number
  /** Value of the answer header RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
  readonly policy: string
  /** Requests that this gateway lets through in each window before it asks Redis. */
  readonly free: number
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
}

export interface Limits {
  readonly principal: Bucket
  readonly tenant: Bucket
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
 * (1 % of the limit) may go unused. While Redis is away each gateway enforces its share (limit ÷ gateways) by itself.
 */
export interface RateLimit {
  /** The limits of a principal; to be kept with it. */
  limitsOf(principal: Principal): Limits
  /** Takes a token of each limit if they are at hand. HOT PATH: no I/O in all but the first request of a batch. */
  tryTake(limits: Limits): boolean
  /** Takes a token of each limit, fetching more when they are used up. */
  take(limits: Limits): Promise<Verdict>
}

export const windowMs = 60_000
/** All gateways together let this part of the limit through without a token, in each window of their own. */
const freeShare = 50
/** A batch is at most this part of the limit. */
const batchShare = 100
/** Every batch that is used up doubles the next, so that rare callers cost little and busy ones seldom ask. */
const batchGrowth = 2

/** Makes the limits of a gateway that is one of `gatewayCount`. */
export function createRateLimit(options: {
  readonly source: TokenSource
  readonly clocks: Clocks
  readonly gatewayCount: number
  /** How many windows are remembered of which nobody else knows any more. */
  readonly remembered?: number
}): RateLimit {
  const { source, clocks, gatewayCount, remembered = 200_000 } = options
  const buckets = new LRUCache<string, Bucket>({ max: remembered })
  // INVARIANT: while anyone holds a bucket there is no second one of its name, which would begin with tokens of its own.
  const held = new Map<string, WeakRef<Bucket>>()
  const gone = new FinalizationRegistry<string>((name) => {
    if (held.get(name)?.deref() === undefined) held.delete(name)
  })
  const fetching = new Map<Bucket, Promise<void>>()

  function bucketOf(name: string, limit: number): Bucket {
    const known = buckets.get(name) ?? held.get(name)?.deref()
    if (known !== undefined && known.limit === limit) {
      buckets.set(name, known)
      return known
    }
    const policy = `"caller";q=${limit};w=${windowMs / 1000}`
    const free = Math.floor(limit / freeShare / gatewayCount)
    const window = { windowEnds: -Infinity, windowOver: -Infinity }
    const bucket = { name, limit, policy, free, tokens: 0, left: limit, ...window, used: 0, owed: 0, batch: 1 }
    buckets.set(name, bucket)
    held.set(name, new WeakRef(bucket))
    gone.register(bucket, name)
    return bucket
  }

  function isSpent(bucket: Bucket, now: number): boolean {
    return now < bucket.windowEnds && bucket.tokens === 0 && bucket.left === 0
  }

  function isEmpty(bucket: Bucket, now: number): boolean {
    if (now >= bucket.windowOver && bucket.free > 0) startOwnWindow(bucket, now)
    return bucket.tokens === 0 || now >= bucket.windowEnds
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
      lease = await source.lease(bucket.name, bucket.limit, bucket.batch + bucket.owed)
    } catch {
      takeShare(bucket, sent)
      return
    }
    const received = clocks.monotonic()
    // From the moment of asking: the tokens are void here before Redis begins to count the next window.
    const ends = sent + lease.windowLeftMs
    if (received >= ends) return
    if (sent >= bucket.windowEnds) startWindow(bucket)
    bucket.tokens += Math.max(0, lease.granted - bucket.owed)
    bucket.owed = 0
    bucket.left = lease.left
    bucket.windowEnds = ends
    bucket.windowOver = received + lease.windowLeftMs
  }

  /** Without Redis: what is left of this gateway's own share, once a window. */
  function takeShare(bucket: Bucket, now: number): void {
    if (now >= bucket.windowEnds) startOwnWindow(bucket, now)
    bucket.tokens = Math.max(0, Math.ceil(bucket.limit / gatewayCount) - bucket.used)
    bucket.left = 0
  }

  function startWindow(bucket: Bucket): void {
    bucket.tokens = 0
    bucket.used = 0
    bucket.owed = 0
    bucket.left = bucket.limit
  }

  /** One that Redis does not know of yet. */
  function startOwnWindow(bucket: Bucket, now: number): void {
    startWindow(bucket)
    bucket.tokens = bucket.free
    bucket.owed = bucket.free
    bucket.left -= bucket.free
    bucket.windowEnds = now + windowMs
    bucket.windowOver = bucket.windowEnds
  }

  function refusalOf(limits: Limits, now: number): Verdict | undefined {
    for (const bucket of [limits.principal, limits.tenant]) {
      if (isSpent(bucket, now)) {
        return { kind: 'refused', bucket, retryAfterSeconds: Math.max(1, Math.ceil((bucket.windowEnds - now) / 1000)) }
      }
    }
    return undefined
  }

  function tryTake({ principal, tenant }: Limits): boolean {
    const now = clocks.monotonic()
    if (isEmpty(principal, now) || isEmpty(tenant, now)) return false
    principal.tokens -= 1
    tenant.tokens -= 1
    principal.used += 1
    tenant.used += 1
    return true
  }

  return {
    limitsOf: (principal) => ({
      principal: bucketOf(`{${principal.tenantId}}:${principal.kind}:${principal.id}`, principal.limit),
      tenant: bucketOf(`{${principal.tenantId}}:tenant`, principal.tenantLimit),
    }),
    tryTake,
    take: async (limits) => {
      for (;;) {
        if (tryTake(limits)) return { kind: 'allowed' }
        const now = clocks.monotonic()
        const refusal = refusalOf(limits, now)
        if (refusal !== undefined) return refusal
        // One that is not empty keeps its tokens; each round either grants, refuses, or starts a window.
        const empty = [limits.principal, limits.tenant].filter((bucket) => isEmpty(bucket, now))
        await Promise.all(empty.map(fill))
      }
    },
  }
}
