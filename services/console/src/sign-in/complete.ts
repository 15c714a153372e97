import type { Logger } from '@postern/service-kit'
import type { GatewayClient } from '../api/gateway.ts'
import type { Session } from '../session/content.ts'
import type { Sessions } from '../session/sessions.ts'
import type { Attempt } from './attempts.ts'
import { type Provider, ProviderUnavailable, SignInRefused, type SignedIn } from './provider.ts'

export type Refusal =
  | 'not_ours'
  | 'cancelled'
  | 'not_valid'
  | 'ended_by_provider'
  | 'no_role'
  | 'tenant_suspended'
  | 'token_refused'
  | 'provider_unavailable'
  | 'gateway_unavailable'

export type SignInOutcome =
  | { readonly kind: 'signed_in'; readonly session: Session }
  | { readonly kind: 'refused'; readonly reason: Refusal }

export interface CompleteParts {
  readonly provider: Pick<Provider, 'finish'>
  readonly gateway: Pick<GatewayClient, 'whoIs'>
  readonly sessions: Pick<Sessions, 'begin'>
  readonly logger: Logger
}

/**
 * Redeems the code and starts a session. The gateway reads tenant and roles, so there is only one mapping of claims.
 */
export async function completeSignIn(callback: URL, attempt: Attempt, parts: CompleteParts): Promise<SignInOutcome> {
  const { provider, gateway, sessions, logger } = parts
  const refuse = (reason: Refusal, cause?: unknown): SignInOutcome => {
    logger.warn({ event: 'sign_in_refused', reason, ...(cause === undefined ? {} : { err: cause }) })
    return { kind: 'refused', reason }
  }
  let signedIn: SignedIn
  try {
    signedIn = await provider.finish(callback, attempt)
  } catch (error) {
    if (error instanceof SignInRefused) return refuse(error.reason, error)
    if (error instanceof ProviderUnavailable) return refuse('provider_unavailable', error)
    throw error
  }
  const known = await gateway.whoIs(signedIn.tokens.access)
  switch (known.kind) {
    case 'unavailable':
      return refuse('gateway_unavailable', known.cause)
    case 'refused':
      return refuse(known.code === 'tenant_suspended' ? 'tenant_suspended' : 'token_refused')
    case 'person':
      break
    default:
      return known satisfies never
  }
  const { id, label, tenant, roles } = known
  if (roles.length === 0) return refuse('no_role')
  const { subject, sid, tokens, name, email } = signedIn
  const content = {
    issuer: attempt.issuer,
    subject,
    sid,
    person: { id, name: name ?? label, email: email ?? null },
    tenant,
    roles: [...roles],
    tokens,
  }
  const session = await sessions.begin(content, attempt.begunAt)
  if (session === undefined) return refuse('ended_by_provider')
  const isRenewable = tokens.refresh !== undefined
  logger.info({ event: 'signed_in', tenant_id: tenant.id, person_id: id, is_renewable: isRenewable })
  return { kind: 'signed_in', session }
}
