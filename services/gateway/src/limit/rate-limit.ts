import type { Clocks } from '../authenticate/clocks.ts'
import type { TokenLease, TokenSource } from './token-source.ts'

export interface Bucket {
  readonly kind: 'api_key' | 'user' | 'machine' | 'tenant' | 'people'
  readonly tenantId: string
  readonly id: string
  readonly limit: number
  /** Without Redis, this gateway's share. */
  effectiveLimit: number
  /** The header RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers) for `effectiveLimit`. */
  policy: string
  tokens: number
  left: number
  /** End of the tokens' validity (monotonic), not after the end of the window. */
  windowEnds: number
  /** When the window has certainly ended. */
  windowOver: number
  used: number
  owed: number
  batch: number
  /** When Redis last failed; undefined after an answer. */
  failedAt: number | undefined
  readonly madeAt: number
  /** Holders must get the current bucket. */
  isForgotten: boolean
}

export interface Limits {
  readonly principal: Bucket
  readonly tenant: Bucket
  readonly people?: Bucket
}

export interface Caller {
  readonly kind: 'api_key' | 'user' | 'machine'
  /** The id of the person, the key, or the first key of its rotations. */
  readonly limitId: string
  readonly tenantId: string
  readonly limit: number
  readonly tenantLimit: number
  limits: Limits | undefined
}

export type Verdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'refused'; readonly bucket: Bucket; readonly retryAfterSeconds: number }

/** A limit is exceeded by at most 4 percent. Without Redis each gateway enforces its share (decision 26). */
export interface RateLimit {
  /** Use them in the same tick. HOT PATH. */
  limitsOf(caller: Caller): Limits
  /** HOT PATH: no I/O. */
  tryConsume(limits: Limits): boolean
  /** Fetches more tokens if necessary. */
  consume(limits: Limits): Promise<Verdict>
  /** 1 while Redis counts. */
  limitShare(): number
}

export const windowMs = 60_000
/** All gateways grant this share without tokens in each window. */
const freeShare = 50
const batchShare = 100
/** Each used batch doubles the next one. */
const batchGrowth = 2
const checksPerNew = 4
const maxPolicies = 1000
const askAgainMs = 1000
/** Assumed if the number is unknown, to reject early instead of late. */
const unknownGateways = 10

/** A tenth of a tenant's limit is reserved for people, at most one person's limit. */
const peopleShare = 10
const maxForPeople = 1200

function reserveForPeople(tenantLimit: number): number {
  return Math.min(maxForPeople, Math.floor(tenantLimit / peopleShare))
}

/** `gateways` returns the number of gateways with a lease, if known. */
export function createRateLimit(options: {
  readonly source: TokenSource
  readonly clocks: Clocks
  readonly gateways: () => number | undefined
}): RateLimit {
  const { source, clocks } = options
  const gateways = (): number => Math.max(1, options.gateways() ?? unknownGateways)
  const shareOf = ({ limit }: Bucket): number => Math.ceil(limit / gateways())
  const freeTokensOf = ({ limit }: Bucket): number => Math.floor(limit / freeShare / gateways())
  const buckets = {
    api_key: new Map<string, Bucket>(),
    user: new Map<string, Bucket>(),
    machine: new Map<string, Bucket>(),
    tenant: new Map<string, Bucket>(),
    people: new Map<string, Bucket>(),
  } as const
  // Removing the oldest entries of a map repeatedly is slow.
  const all: Bucket[] = []
  let nextCheck = 0
  const policies = new Map<number, string>()
  const fetching = new Map<Bucket, Promise<void>>()

  // INVARIANT: each limit has one bucket that is not removed, because a second one would have its own tokens.
  function bucketOf(kind: Bucket['kind'], tenantId: string, id: string, limit: number): Bucket {
    const name = nameAmong({ kind, tenantId, id })
    const known = buckets[kind].get(name)
    if (known !== undefined && known.limit === limit) return known
    evictSome()
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

  function evictSome(): void {
    const now = clocks.monotonic()
    for (let checks = 0; checks < checksPerNew; checks += 1) {
      nextCheck = nextCheck + 1 < all.length ? nextCheck + 1 : 0
      const bucket = all[nextCheck]
      const last = all.at(-1)
      if (bucket === undefined || last === undefined || isInUse(bucket, now)) continue
      bucket.isForgotten = true
      const ofKind = buckets[bucket.kind]
      const name = nameAmong(bucket)
      if (ofKind.get(name) === bucket) ofKind.delete(name)
      all[nextCheck] = last
      all.pop()
    }
  }

  function isInUse(bucket: Bucket, now: number): boolean {
    return now < Math.max(bucket.windowOver, bucket.madeAt + windowMs) || fetching.has(bucket)
  }

  function findCurrent(bucket: Bucket): Bucket {
    return bucket.isForgotten ? bucketOf(bucket.kind, bucket.tenantId, bucket.id, bucket.limit) : bucket
  }

  /** A new bucket may remove an ended one, but not another new one, so the loop ends. */
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
    // After a failure Redis is asked again when it answers, but not for each request.
    return bucket.failedAt === undefined || now < bucket.failedAt + askAgainMs || !source.isHealthy()
  }

  function isEmpty(bucket: Bucket, now: number): boolean {
    // HOT PATH: tokens end before the window does, so the window needs no check.
    if (now < bucket.windowEnds) return bucket.tokens === 0
    if (now < bucket.windowOver || freeTokensOf(bucket) === 0) return true
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
      useOwnShare(bucket, sent)
      return
    }
    const received = clocks.monotonic()
    // From the request, so that tokens end here before Redis starts the next window.
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

  /** Redis receives the count later. */
  function useOwnShare(bucket: Bucket, now: number): void {
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

  function startOwnWindow(bucket: Bucket, now: number): void {
    startWindow(bucket)
    if (!source.isHealthy()) enforce(bucket, shareOf(bucket))
    const free = Math.min(freeTokensOf(bucket), bucket.effectiveLimit)
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

  /** The reserve for people comes last. */
  function sourceOf({ tenant, people }: Limits, now: number): Bucket {
    return people !== undefined && isEmpty(tenant, now) && isSpent(tenant, now) ? people : tenant
  }

  function tryConsume(limits: Limits): boolean {
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
      const forPeople = reserveForPeople(tenantLimit)
      caller.limits = combineLimits(
        () => bucketOf(kind, tenantId, limitId, caller.limit),
        () => bucketOf('tenant', tenantId, tenantId, tenantLimit - forPeople),
        kind !== 'api_key' && forPeople > 0 ? () => bucketOf('people', tenantId, tenantId, forPeople) : undefined,
      )
      return caller.limits
    },
    tryConsume,
    consume: async ({ principal, tenant, people }) => {
      for (;;) {
        const limits = combineLimits(
          () => findCurrent(principal),
          () => findCurrent(tenant),
          people === undefined ? undefined : () => findCurrent(people),
        )
        if (tryConsume(limits)) return { kind: 'allowed' }
        const now = clocks.monotonic()
        const refusal = refusalOf(limits, now)
        if (refusal !== undefined) return refusal
        // Each round grants, rejects, or starts a window.
        const empty = [limits.principal, sourceOf(limits, now)].filter((bucket) => isEmpty(bucket, now))
        await Promise.all(empty.map(fill))
      }
    },
  }
}

function isForgotten({ principal, tenant, people }: Limits): boolean {
  return principal.isForgotten || tenant.isForgotten || people?.isForgotten === true
}

/** Subjects are unique only within an issuer. */
function nameAmong({ kind, tenantId, id }: Pick<Bucket, 'kind' | 'tenantId' | 'id'>): string {
  return kind === 'user' || kind === 'machine' ? `${tenantId} ${id}` : id
}

function nameOf({ kind, tenantId, id }: Bucket): string {
  return kind === 'tenant' || kind === 'people' ? `{${tenantId}}:${kind}` : `{${tenantId}}:${kind}:${id}`
}
