import { isScimTarget } from '@postern/contracts'
import type { KeyRefusal } from '@postern/service-kit/access'
import type { Exchange, ProblemAnswer } from '../exchange.ts'
import { refusal } from '../refusal.ts'

const refusals: Readonly<Record<KeyRefusal, { readonly detail: string; readonly error?: string }>> = {
  key_revoked: { detail: 'The key was revoked and will not work again.', error: 'revoked_key' },
  key_expired: { detail: 'The key has expired. Ask for a new one.', error: 'expired_key' },
  tenant_suspended: { detail: 'The platform has suspended the tenant.' },
  address_not_allowed: { detail: 'The key is limited to certain networks, and this address is in none of them.' },
}

export const personInactive: ProblemAnswer = {
  detail: 'The directory of the organization has deactivated or deleted this person.',
  headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
}

export const tokenExpired: ProblemAnswer = {
  detail: 'The access token expired while the request was open.',
  headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
}

export const personUnknown: ProblemAnswer = {
  detail: 'The directory of the organization does not have this person, and only people whom it has may sign in.',
  headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
}

/** Returns the challenge of a 401; identity providers send keys as bearer tokens. */
export function challengeOf({ target }: Pick<Exchange, 'target'>): string {
  return isScimTarget(target) ? 'Bearer realm="postern"' : 'ApiKey realm="postern"'
}

export function refusalAnswer(exchange: Pick<Exchange, 'target'>, code: KeyRefusal): ProblemAnswer {
  const { detail, error } = refusals[code]
  const headers = error === undefined ? [] : ['www-authenticate', `${challengeOf(exchange)}, error="${error}"`]
  return { detail, headers }
}

/** Neither accepts nor rejects. */
export const unavailable = refusal('auth_unavailable', {
  detail: 'The gateway cannot verify credentials now. Try again.',
  retryAfterSeconds: 1,
})
