import type { Principal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import type { RateLimit } from './limit/rate-limit.ts'
import { type Refusal, refusal } from './refusal.ts'
import type { Usage } from './usage.ts'
import { denialOf } from './authorize/access.ts'

/** Rejects a caller that may not call the route, or a missing route. Public routes have no caller. */
export type AuthorizeRequest = (exchange: Exchange, principal: Principal | undefined) => Refusal | undefined

export function createAuthorizeRequest(parts: {
  readonly rateLimit: Pick<RateLimit, 'limitsOf'>
  readonly usage: Pick<Usage, 'used' | 'denied'>
}): AuthorizeRequest {
  const { rateLimit, usage } = parts

  return (exchange, principal) => {
    if (principal === undefined) {
      if (exchange.route?.access.kind === 'public') return undefined
      throw new Error('only a public route is served without a caller')
    }
    exchange.limits = rateLimit.limitsOf(principal)
    const refused = judge(exchange, principal)
    if (refused === undefined) return undefined
    if (exchange.match.kind === 'route') usage.denied(principal, exchange.address, 'scope')
    usage.used(principal, exchange.address, undefined)
    return refused
  }
}

function judge({ match }: Exchange, principal: Principal): Refusal | undefined {
  switch (match.kind) {
    case 'none':
      return refusal('not_found', { detail: 'There is no such route. The OpenAPI document lists them all.' })
    case 'method': {
      const allowed = match.allowed.join(', ')
      return refusal('method_not_allowed', {
        detail: `This resource supports ${allowed}.`,
        headers: ['allow', allowed],
      })
    }
    case 'route': {
      const denial = denialOf(match.route, principal)
      if (denial === undefined) return undefined
      const { code, ...answer } = denial
      return refusal(code, answer)
    }
    default:
      return match satisfies never
  }
}
