import { tenantHeader, whoami } from '@postern/contracts'
import { type SignInRefusal, explainRefusal, refuseTenants } from '@postern/sign-in'
import type { Exchange } from '../exchange.ts'
import type { FailedAttempts } from '../limit/failed-attempts.ts'
import { type Refusal, refusal } from '../refusal.ts'
import type { Usage } from '../usage.ts'
import type { TokenVerifier, VerifiedToken } from './bearer.ts'
import { createDirectoryCheck } from './check-directory.ts'
import { chooseTenant } from './choose-tenant.ts'
import { refuseAfterFailures, refuseInvalidToken, refuseKey } from './credential-refusals.ts'
import type { PersonLookup } from './person-lookup.ts'
import { type Principal, undecidedPrincipal, userPrincipal } from './principal.ts'
import { unavailable } from './refusal-answer.ts'
import type { TenantLookup } from './tenant-lookup.ts'

export interface TokenAuthenticationParts {
  readonly tenants: TenantLookup
  readonly people: PersonLookup
  readonly failedAttempts: FailedAttempts
  readonly usage: Pick<Usage, 'used'>
  /** Whether answers name the cause of a refused token. */
  readonly explainsTokens: boolean
  readonly onToken: (exchange: Exchange, event: 'token_refused' | 'token_without_roles', refusal: SignInRefusal) => void
}

const maxSuspectTokens = 256

/** Reads access tokens of people and machines: verifies them, chooses the tenant, and asks the directory. */
export function createTokenAuthentication(
  parts: TokenAuthenticationParts,
): (exchange: Exchange, text: string, verifier: TokenVerifier) => Promise<Principal | Refusal> {
  const { tenants, people, failedAttempts, usage, explainsTokens, onToken } = parts
  /** Tokens of addresses with many forged ones are verified one at a time. */
  const suspects = createQueue(maxSuspectTokens)
  const directory = createDirectoryCheck({
    people,
    tenants,
    usage,
    onRefused: (exchange, refused) => onToken(exchange, 'token_refused', refused),
  })

  function refuseToken(exchange: Exchange, refused: SignInRefusal): Refusal {
    onToken(exchange, 'token_refused', refused)
    return refuseInvalidToken(explainsTokens ? explainRefusal(refused) : publicDetail(refused))
  }

  async function checkToken(
    exchange: Exchange,
    text: string,
    { verify }: TokenVerifier,
  ): Promise<Refusal | { readonly kind: 'valid'; readonly token: VerifiedToken }> {
    const waitSeconds = failedAttempts.waitSeconds(exchange.address)
    const check = waitSeconds === 0 ? await verify(text) : await suspects(async () => await verify(text))
    if (check?.kind === 'valid') {
      if (check.token.withoutRoles !== undefined) onToken(exchange, 'token_without_roles', check.token.withoutRoles)
      return check
    }
    if (check?.kind === 'invalid' && check.isForged) failedAttempts.note(exchange.address)
    if (check === undefined || (waitSeconds > 0 && check.kind === 'invalid')) return refuseAfterFailures(waitSeconds)
    if (check.kind === 'unavailable') return unavailable
    return refuseToken(exchange, check.refusal)
  }

  return async (exchange, text, verifier) => {
    let token = verifier.find(text)
    if (token === undefined) {
      const checked = await checkToken(exchange, text, verifier)
      if (checked.kind === 'refusal') return checked
      token = checked.token
    }
    const named = exchange.request.headersDistinct[tenantHeader] ?? []
    if (named.length > 1) return refusal('duplicate_header', { detail: `Send the header ${tenantHeader} once.` })
    const choice = await chooseTenant(token.grants, named[0], tenants)
    switch (choice.kind) {
      case 'unavailable':
        return unavailable
      case 'unknown':
        failedAttempts.note(exchange.address)
        return refuseToken(exchange, refuseTenants(token))
      case 'not_granted':
        return refusal('tenant_not_granted', { detail: notGranted, allowed: choice.names })
      case 'undecided': {
        if (exchange.route?.id !== whoami.id) {
          return refusal('tenant_required', { detail: nameOne, allowed: choice.names })
        }
        const listed = await directory.listOpen(exchange, token, choice.access)
        if (listed.kind === 'unavailable') return unavailable
        const isOpen = listed.kind === 'open'
        exchange.principal = undecidedPrincipal(token, isOpen ? listed.access : listed.refusedIn)
        return isOpen ? exchange.principal : listed.refusal
      }
      case 'chosen': {
        const checked = await directory.check(exchange, token, choice)
        if (checked.kind === 'refusal') {
          // For the log and the reports.
          exchange.principal = userPrincipal(token, choice.tenant, choice.access, undefined)
          return checked
        }
        const { tenant, access, person } = checked
        const principal = userPrincipal(token, tenant, access, person?.hash)
        exchange.principal = principal
        if (tenant.tenantStatus !== 'active') return refuseKey(exchange, 'tenant_suspended')
        exchange.tenant = tenant
        exchange.tokenEndsAt = token.acceptedUntil
        return principal
      }
      default:
        return choice satisfies never
    }
  }
}

/** Runs work one at a time. Undefined if too much waits. */
function createQueue(mostWaiting: number): <T>(work: () => Promise<T>) => Promise<T | undefined> {
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()
  return async (work) => {
    if (waiting >= mostWaiting) return undefined
    waiting += 1
    const result = last.then(work).finally(() => (waiting -= 1))
    last = result.catch(() => undefined)
    return await result
  }
}

function publicDetail({ code }: SignInRefusal): string {
  if (code === 'tenant_unknown') return 'The access token names a tenant that does not exist.'
  return code.startsWith('tenant_')
    ? 'The access token names no tenant.'
    : 'The access token does not verify, or has expired.'
}

const notGranted = `The access token does not grant the tenant that the header ${tenantHeader} names. Name one of \`allowed\`, or sign in again after access was given.`
const nameOne = `This person may work in several tenants. Name one of \`allowed\` in the header ${tenantHeader}; GET /api/v1/whoami lists them.`
