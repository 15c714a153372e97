import type { Logger } from '@postern/service-kit'
import { type SignInRefusal, refusalFields } from '@postern/sign-in'
import type { GatewayClient, SignInRequest, Tenant, WhoIs } from '../api/gateway.ts'
import type { Session } from '../session/content.ts'
import type { Choice } from './choice.ts'
import type { Sessions } from '../session/sessions.ts'
import type { SessionStore } from '../session/store.ts'
import type { Attempt } from './attempts.ts'
import { explainToken } from './explain-failure.ts'
import { type Provider, ProviderUnavailable, SignInRefused, type SignedIn } from './provider.ts'

export type Refusal =
  | 'not_ours'
  | 'cancelled'
  | 'not_valid'
  | 'ended_by_provider'
  | 'no_role'
  | 'tenant_suspended'
  | 'tenant_not_granted'
  | 'person_inactive'
  | 'person_unknown'
  | 'token_refused'
  | 'provider_unavailable'
  | 'gateway_unavailable'

export type SignInOutcome =
  | { readonly kind: 'signed_in'; readonly session: Session }
  /** The person has several tenants. Nobody is signed in yet. */
  | { readonly kind: 'choice'; readonly choice: Choice; readonly tenants: readonly Tenant[] }
  | { readonly kind: 'refused'; readonly reason: Refusal; readonly cause: SignInRefusal | undefined }

export interface CompleteParts {
  readonly provider: Pick<Provider, 'finish' | 'settings'>
  readonly gateway: Pick<GatewayClient, 'whoIs'>
  readonly sessions: Pick<Sessions, 'begin'>
  readonly logger: Logger
  readonly now: () => number
  /** The page of a refusal shows its request id. */
  readonly signIn: SignInRequest
}

type Refuse = (reason: Refusal, error?: unknown, cause?: SignInRefusal) => SignInOutcome & { kind: 'refused' }

function createRefuse({
  logger,
  signIn,
  provider,
}: Pick<CompleteParts, 'logger' | 'signIn'> & { readonly provider: Pick<Provider, 'settings'> }): Refuse {
  return (reason, error, cause) => {
    logger.warn({
      event: 'sign_in_refused',
      reason,
      request_id: signIn.requestId,
      provider: provider.settings.name,
      ...(cause === undefined ? {} : refusalFields(cause)),
      ...(error === undefined ? {} : { err: error }),
    })
    return { kind: 'refused', reason, cause }
  }
}

/**
 * Redeems the code and starts a session. The gateway reads tenant and roles, so there is only one mapping of claims.
 */
export async function completeSignIn(
  callback: URL,
  attempt: Attempt,
  parts: CompleteParts & { readonly store: Pick<SessionStore, 'unmark'> },
): Promise<SignInOutcome> {
  const { provider, store } = parts
  const refuse = createRefuse(parts)
  let signedIn: SignedIn
  try {
    signedIn = await provider.finish(callback, attempt)
  } catch (error) {
    // Anyone can make up codes, whose marks would fill Redis.
    await store.unmark(attempt.state)
    if (error instanceof SignInRefused) return refuse(error.reason, error, error.refusal)
    if (error instanceof ProviderUnavailable) return refuse('provider_unavailable', error, error.refusal)
    throw error
  }
  const { issuer, begunAt, returnTo } = attempt
  return await openSession({ issuer, begunAt, returnTo, signedIn }, undefined, parts)
}

/** Starts a session in the named tenant, if the token grants it. Without a name, in the person's only tenant. */
export async function openSession(
  choice: Choice,
  tenantId: string | undefined,
  parts: Omit<CompleteParts, 'provider'> & { readonly provider: Pick<Provider, 'settings'> },
): Promise<SignInOutcome> {
  const { provider, gateway, sessions, logger, signIn } = parts
  const refuse = createRefuse(parts)
  const { issuer, begunAt, signedIn } = choice
  const { access } = signedIn.tokens
  const known: WhoIs = await gateway.whoIs(access, { signIn, ...(tenantId === undefined ? {} : { tenantId }) })
  const explain = async (refusedAs: string | undefined): Promise<SignInRefusal> =>
    await explainToken(access, provider.settings, { now: parts.now(), refusedAs })
  switch (known.kind) {
    case 'unavailable':
      // The gateway may have waited for the provider. If so, blame the provider.
      if (provider.settings.read === 'userinfo') {
        const failure = await explain('auth_unavailable').then(noError, toError)
        if (failure !== undefined) return refuse('provider_unavailable', failure)
      }
      return refuse('gateway_unavailable', known.cause)
    case 'refused': {
      if (known.code === 'tenant_suspended') return refuse('tenant_suspended')
      // The person lost this tenant after the page was shown, or changed the form.
      if (known.code === 'tenant_not_granted') return refuse('tenant_not_granted')
      const cause = await explain(known.code).catch(noError)
      if (known.code === 'person_inactive' || known.code === 'person_unknown') {
        return refuse(known.code, undefined, cause ?? { code: known.code })
      }
      // Other causes do not concern the organization.
      const isOfTenant = cause === undefined || cause.code.startsWith('tenant_')
      return refuse(isOfTenant ? 'token_refused' : 'not_valid', undefined, cause)
    }
    case 'person':
      break
    default:
      return known satisfies never
  }
  const { id, label, tenant, tenants, roles } = known
  if (tenant === null) {
    const [only, ...others] = tenants
    // The token grants more tenants, but their directories refuse the person.
    if (tenantId === undefined && only !== undefined && others.length === 0)
      return await openSession(choice, only.id, parts)
    return { kind: 'choice', choice, tenants }
  }
  if (roles.length === 0) return refuse('no_role', undefined, await explain(undefined).catch(noError))
  const { subject, sid, tokens, name, email } = signedIn
  const content = {
    issuer,
    subject,
    sid,
    person: { id, name: name ?? label, email: email ?? null },
    tenant,
    roles: [...roles],
    canSwitch: tenants.length > 1,
    tokens,
  }
  const session = await sessions.begin(content, begunAt)
  if (session === undefined) return refuse('ended_by_provider')
  const isRenewable = tokens.refresh !== undefined
  logger.info({ event: 'signed_in', tenant_id: tenant.id, person_id: id, is_renewable: isRenewable })
  return { kind: 'signed_in', session }
}

const noError = (): undefined => undefined
const toError = (error: unknown): unknown => error
