import { type Route, referenceOf } from '@postern/contracts'
import { denialOf } from '@postern/service-kit/access'
import type { Principal } from './authenticate/principal.ts'
import { challengeOf } from './authenticate/refusal-answer.ts'
import type { Exchange } from './exchange.ts'
import type { RateLimit } from './limit/rate-limit.ts'
import { type Refusal, refusal } from './refusal.ts'
import type { Usage } from './usage.ts'
import { findCreation, suggestPath } from './authorize/suggest-path.ts'

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

function judge(exchange: Exchange, principal: Principal): Refusal | undefined {
  const { match } = exchange
  switch (match.kind) {
    case 'none':
      return refusal('not_found', { detail: noSuchPath(exchange), headers: descriptionLinks(exchange) })
    case 'method': {
      const allowed = match.allowed.join(', ')
      return refusal('method_not_allowed', {
        detail: `This resource supports ${allowed}.${creationOf(exchange)}`,
        headers: ['allow', allowed],
      })
    }
    case 'route': {
      const denial = denialOf(match.route, principal)
      if (denial === undefined) return undefined
      const { code, ...answer } = denial
      const documentation = `${exchange.basePath}${referenceOf(match.route)}`
      const challenge = code === 'insufficient_scope' ? scopeChallenge(exchange, principal, match.route) : []
      return refusal(code, { ...answer, documentation, headers: challenge })
    }
    default:
      return match satisfies never
  }
}

/** RFC 8631: where clients find the description of the API. */
function descriptionLinks({ basePath }: Exchange): string[] {
  return ['link', `<${basePath}/api/v1/openapi.json>; rel="service-desc", <${basePath}/docs>; rel="service-doc"`]
}

function creationOf({ request, target, basePath }: Exchange): string {
  const path = request.method === 'POST' ? findCreation(target) : undefined
  return path === undefined ? '' : ` Create with POST ${basePath}${path}.`
}

function noSuchPath({ target, basePath }: Exchange): string {
  if (/\/ext:[^/]*\//.test(target))
    return 'There is no such path. Write an external id with a slash as `ext64:` and base64url.'
  const meant = suggestPath(target)
  const suggestion = meant === undefined ? '' : ` Did you mean ${basePath}${meant}?`
  return `There is no such path.${suggestion} All paths are in ${basePath}/api/v1/openapi.json.`
}

/** Names the missing scope as RFC 6750 §3.1 does. Each scope that suffices has its own challenge. */
function scopeChallenge(exchange: Exchange, principal: Principal, { access }: Route): string[] {
  const scheme = principal.kind !== 'api_key' ? 'Bearer realm="postern"' : challengeOf(exchange)
  const enough = access.kind === 'scope' ? [access.scope] : access.kind === 'any-scope' ? access.scopes : []
  const challenges = enough.map((scope) => `${scheme}, error="insufficient_scope", scope="${scope}"`)
  return ['www-authenticate', challenges.join(', ')]
}
