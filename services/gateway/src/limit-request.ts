import type { Principal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import { type Refusal, type ReserveWait, countRequest, refusal } from './refusal.ts'
import type { Usage } from './usage.ts'
import type { PublicRequests } from './limit/public-requests.ts'
import { limitInWords } from './limit/limit-in-words.ts'
import type { Limits, RateLimit } from './limit/rate-limit.ts'

/** Call it once per request. Public routes are counted by address. */
export type LimitRequest = (
  exchange: Exchange,
  principal: Principal | undefined,
) => Refusal | Promise<Refusal | undefined> | undefined

function costOf({ route }: Exchange): number | undefined {
  return route?.access.kind === 'public' ? route.access.cost : undefined
}

/** HOT PATH. */
export function createLimitRequest(parts: {
  readonly rateLimit: Pick<RateLimit, 'limitsOf' | 'consume' | 'tryConsume'>
  readonly publicRequests: PublicRequests
  readonly usage: Pick<Usage, 'used'>
  readonly reserveWait: ReserveWait
}): LimitRequest {
  const { rateLimit, publicRequests, usage, reserveWait } = parts

  async function fetchTokens(exchange: Exchange, principal: Principal, limits: Limits): Promise<Refusal | undefined> {
    const verdict = await rateLimit.consume(limits)
    if (verdict.kind === 'allowed') return undefined
    usage.used(principal, exchange.address, undefined)
    return refusal('too_many_requests', {
      detail: limitInWords(verdict.bucket, principal),
      retryAfterSeconds: verdict.retryAfterSeconds,
    })
  }

  return (exchange, principal) => {
    if (principal === undefined) {
      return countRequest(publicRequests, exchange, 'for public routes', costOf(exchange))
    }
    const limits = exchange.limits ?? rateLimit.limitsOf(principal)
    if (rateLimit.tryConsume(limits)) return undefined
    return reserveWait(exchange) ?? fetchTokens(exchange, principal, limits)
  }
}
