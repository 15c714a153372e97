import { isScimTarget } from '@postern/contracts'
import type { KeyRefusal } from '@postern/service-kit/access'
import type { Exchange } from '../exchange.ts'
import { type Refusal, refusal } from '../refusal.ts'
import { containsKey } from './credentials.ts'
import { challengeOf, refusalAnswer } from './refusal-answer.ts'

export function refuseKey(exchange: Exchange, code: KeyRefusal): Refusal {
  return refusal(code, refusalAnswer(exchange, code))
}

export function refuseAfterFailures(waitSeconds: number): Refusal {
  return refusal('too_many_requests', {
    detail: 'Too many failed authentications from this address.',
    retryAfterSeconds: waitSeconds,
  })
}

/** Other APIs use these for keys. */
const otherHeaders = [
  'x-api-key',
  'api-key',
  'apikey',
  'x-auth-token',
  'x-access-token',
  'x-auth-key',
  'token',
] as const

export function containsMisplacedKey({ request, target }: Exchange): boolean {
  if (containsKey(target)) return true
  return otherHeaders.some((name) => {
    const value = request.headers[name]
    return typeof value === 'string' && containsKey(value)
  })
}

/** Looks nothing up, and does not repeat the value. */
export function refuseMisplacedKey(exchange: Exchange, code: 'missing_credentials' | 'invalid_key'): Refusal {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  const inUrl = containsKey(exchange.target)
  const where = inUrl ? 'in the URL, where proxies and logs keep it: replace the key' : 'in an unsupported form'
  return refusal(code, {
    detail: `The request has an API key ${where}. Send it as Authorization: ${scheme}, one space and the key, without quotes or encoding.`,
    headers: ['www-authenticate', `${challengeOf(exchange)}${code === 'invalid_key' ? ', error="invalid_key"' : ''}`],
  })
}

export function refuseMissing(exchange: Exchange): Refusal {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  return refusal('missing_credentials', {
    detail: `Send Authorization: ${scheme} followed by one space and your key.`,
    headers: ['www-authenticate', challengeOf(exchange)],
  })
}

/** The same detail for mistyped and unknown keys, so that only holders of a real key learn more. */
export function refuseInvalidKey(exchange: Exchange): Refusal {
  return refusal('invalid_key', {
    detail: 'There is no such key. Check that it is complete and unaltered.',
    headers: ['www-authenticate', `${challengeOf(exchange)}, error="invalid_key"`],
  })
}

export function refuseInvalidToken(detail: string): Refusal {
  return refusal('invalid_token', {
    detail,
    headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
  })
}
