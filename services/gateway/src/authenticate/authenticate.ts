import { isScimTarget, tenantHeader, whoami } from '@postern/contracts'
import type { KeyRefusal } from '@postern/service-kit/access'
import { type SignInRefusal, explainRefusal, refuseTenants } from '@postern/sign-in'
import type { Exchange } from '../exchange.ts'
import type { FailedAttempts } from '../limit/failed-attempts.ts'
import type { PublicRequests } from '../limit/public-requests.ts'
import { type Refusal, type ReserveWait, countRequest, refusal } from '../refusal.ts'
import type { Usage } from '../usage.ts'
import type { TokenVerifier, VerifiedToken } from './bearer.ts'
import type { DatabaseClock } from './clocks.ts'
import { type KeySchemes, containsKey, parseCredentials } from './credentials.ts'
import { decideKey } from './decide.ts'
import type { PersonLookup } from './person-lookup.ts'
import type { RevocationWatermarks } from './revocation-watermarks.ts'
import type { KeyEntry, KeyLookup } from './key-lookup.ts'
import { createDirectoryCheck } from './check-directory.ts'
import { chooseTenant } from './choose-tenant.ts'
import { type Principal, undecidedPrincipal, userPrincipal } from './principal.ts'
import { challengeOf, refusalAnswer, unavailable } from './refusal-answer.ts'
import type { TenantLookup } from './tenant-lookup.ts'

/** Finds the caller and whether it has access now. The result must be used in the same tick. */
export type Authenticate = (exchange: Exchange) => Principal | Refusal | Promise<Principal | Refusal>

export interface AuthenticateParts {
  readonly keys: KeyLookup
  readonly tenants: TenantLookup
  readonly people: PersonLookup
  readonly tokens: TokenVerifier | undefined
  readonly watermarks: RevocationWatermarks
  readonly databaseClock: DatabaseClock
  /** Separate, so that forged tokens do not block valid keys. */
  readonly failedAttempts: { readonly keys: FailedAttempts; readonly tokens: FailedAttempts }
  readonly unreadableRequests: PublicRequests
  readonly reserveWait: ReserveWait
  readonly usage: Pick<Usage, 'used' | 'denied' | 'refused'>
  readonly found: { inMemory: number }
  readonly keySchemes: KeySchemes
  /** Whether answers name the cause of a refused token. */
  readonly explainsTokens: boolean
  readonly onToken: (exchange: Exchange, event: 'token_refused' | 'token_without_roles', refusal: SignInRefusal) => void
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

/** Attempts while the record keeps changing. */
const maxRounds = 5
const maxSuspectTokens = 256

/** Makes the second step. HOT PATH: a key in memory is judged without a promise. */
export function createAuthenticate(parts: AuthenticateParts): Authenticate {
  const { keys, tenants, people, tokens, watermarks, databaseClock, failedAttempts, unreadableRequests } = parts
  const { reserveWait, usage, found, keySchemes, explainsTokens, onToken, onCrash } = parts
  /** Tokens of addresses with many forged ones are verified one at a time. */
  const suspects = createQueue(maxSuspectTokens)

  const directory = createDirectoryCheck({
    people,
    tenants,
    usage,
    onRefused: (exchange, refused) => onToken(exchange, 'token_refused', refused),
  })
  const ofIdentityProviders = { ...keySchemes, bearer: true }

  /** Returns undefined if the entry must be read again. */
  function judge(exchange: Exchange, entry: KeyEntry): Principal | Refusal | undefined {
    const { principal } = entry
    const decision = decideKey(entry, watermarks, databaseClock, exchange.address)
    if (decision === 'outdated') return undefined
    exchange.principal = principal
    if (decision === 'accepted') {
      exchange.key = entry
      return principal
    }
    if (decision === 'key_revoked') usage.denied(principal, exchange.address, 'revoked')
    if (decision === 'key_expired') usage.denied(principal, exchange.address, 'expired')
    if (decision === 'address_not_allowed') usage.denied(principal, exchange.address, 'address')
    return refusedKey(exchange, decision)
  }

  async function readKey(exchange: Exchange, hash: string): Promise<Principal | Refusal> {
    for (let round = 0; round < maxRounds; round += 1) {
      let entry = keys.find(hash)
      if (entry === undefined) {
        const looked = await lookUp(exchange, hash)
        if (looked.kind === 'refusal') return looked
        entry = looked.entry
      }
      const judged = judge(exchange, entry)
      if (judged !== undefined) return judged
    }
    return unavailable
  }

  async function lookUp(
    exchange: Exchange,
    hash: string,
  ): Promise<Refusal | { readonly kind: 'found'; readonly entry: KeyEntry }> {
    // Good keys behind an address with many failures are looked up one batch at a time.
    const waitSeconds = failedAttempts.keys.waitSeconds(exchange.address)
    const isSuspect = waitSeconds > 0
    if (watermarks.isRevoked(hash)) {
      // Only finds the owner of a revoked key, for the audit trail.
      keys.obtain(hash, isSuspect).then(
        (obtained) => {
          if (obtained.kind !== 'found') return
          usage.denied(obtained.entry.principal, exchange.address, 'revoked')
          usage.refused(obtained.entry.principal, exchange, 'key_revoked')
        },
        (error: unknown) => onCrash(exchange, error),
      )
      return refusedKey(exchange, 'key_revoked')
    }
    const obtained = await keys.obtain(hash, isSuspect)
    switch (obtained.kind) {
      case 'found':
        return obtained
      case 'unknown':
        failedAttempts.keys.note(exchange.address)
        return isSuspect ? tooManyFailures(waitSeconds) : invalidKey(exchange)
      case 'unavailable':
        return isSuspect ? tooManyFailures(waitSeconds) : unavailable
      default:
        return obtained satisfies never
    }
  }

  function refusedToken(exchange: Exchange, refused: SignInRefusal): Refusal {
    onToken(exchange, 'token_refused', refused)
    return invalidToken(explainsTokens ? explainRefusal(refused) : publicDetail(refused))
  }

  async function checkToken(
    exchange: Exchange,
    text: string,
    { verify }: TokenVerifier,
  ): Promise<Refusal | { readonly kind: 'valid'; readonly token: VerifiedToken }> {
    const waitSeconds = failedAttempts.tokens.waitSeconds(exchange.address)
    const check = waitSeconds === 0 ? await verify(text) : await suspects(async () => await verify(text))
    if (check?.kind === 'valid') {
      if (check.token.withoutRoles !== undefined) onToken(exchange, 'token_without_roles', check.token.withoutRoles)
      return check
    }
    if (check?.kind === 'invalid' && check.isForged) failedAttempts.tokens.note(exchange.address)
    if (check === undefined || (waitSeconds > 0 && check.kind === 'invalid')) return tooManyFailures(waitSeconds)
    if (check.kind === 'unavailable') return unavailable
    return refusedToken(exchange, check.refusal)
  }

  async function readToken(exchange: Exchange, text: string, verifier: TokenVerifier): Promise<Principal | Refusal> {
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
        failedAttempts.tokens.note(exchange.address)
        return refusedToken(exchange, refuseTenants(token))
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
          // Only to report it.
          exchange.principal = userPrincipal(token, choice.tenant, choice.access, undefined)
          return checked
        }
        const { tenant, access, person } = checked
        const principal = userPrincipal(token, tenant, access, person?.hash)
        exchange.principal = principal
        if (tenant.tenantStatus !== 'active') return refusedKey(exchange, 'tenant_suspended')
        exchange.tenant = tenant
        return principal
      }
      default:
        return choice satisfies never
    }
  }

  /** Rejects malformed credentials; no look-up was needed, so failed attempts are not counted. */
  function refuseUnreadable(exchange: Exchange, refused: Refusal): Refusal {
    return countRequest(unreadableRequests, exchange, 'without valid credentials') ?? refused
  }

  return (exchange) => {
    const header = exchange.headers.read.authorization
    if (header === undefined) {
      const isMisplaced = containsMisplacedKey(exchange)
      return refuseUnreadable(
        exchange,
        isMisplaced ? misplacedKey(exchange, 'missing_credentials') : refuseMissing(exchange),
      )
    }
    const credentials = parseCredentials(header, isScimTarget(exchange.target) ? ofIdentityProviders : keySchemes)
    switch (credentials.kind) {
      case 'api_key': {
        const { hash } = credentials.key
        const entry = keys.find(hash)
        if (entry !== undefined) {
          if (exchange.key === undefined) found.inMemory += 1
          const judged = judge(exchange, entry)
          if (judged !== undefined) return judged
        }
        return reserveWait(exchange) ?? readKey(exchange, hash)
      }
      case 'bearer':
        if (tokens === undefined) {
          return refuseUnreadable(
            exchange,
            invalidToken('Access tokens are not accepted here. Send Authorization: ApiKey.'),
          )
        }
        return reserveWait(exchange) ?? readToken(exchange, credentials.token, tokens)
      case 'misplaced_key':
        return refuseUnreadable(exchange, misplacedKey(exchange, 'invalid_key'))
      case 'malformed':
        if (credentials.scheme === undefined) return refuseUnreadable(exchange, refuseMissing(exchange))
        if (credentials.scheme === 'Bearer') {
          return refuseUnreadable(exchange, invalidToken('The Authorization header does not hold a bearer token.'))
        }
        failedAttempts.keys.note(exchange.address)
        return refuseUnreadable(exchange, invalidKey(exchange))
      default:
        return credentials satisfies never
    }
  }
}

function tooManyFailures(waitSeconds: number): Refusal {
  return refusal('too_many_requests', {
    detail: 'Too many failed authentications from this address.',
    retryAfterSeconds: waitSeconds,
  })
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

function containsMisplacedKey({ request, target }: Exchange): boolean {
  if (containsKey(target)) return true
  return otherHeaders.some((name) => {
    const value = request.headers[name]
    return typeof value === 'string' && containsKey(value)
  })
}

/** Looks nothing up, and does not repeat the value. */
function misplacedKey(exchange: Exchange, code: 'missing_credentials' | 'invalid_key'): Refusal {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  const inUrl = containsKey(exchange.target)
  const where = inUrl ? 'in the URL, where proxies and logs keep it: replace the key' : 'in an unsupported form'
  return refusal(code, {
    detail: `The request has an API key ${where}. Send it as Authorization: ${scheme}, one space and the key, without quotes or encoding.`,
    headers: ['www-authenticate', `${challengeOf(exchange)}${code === 'invalid_key' ? ', error="invalid_key"' : ''}`],
  })
}

function refuseMissing(exchange: Exchange): Refusal {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  return refusal('missing_credentials', {
    detail: `Send Authorization: ${scheme} followed by one space and your key.`,
    headers: ['www-authenticate', challengeOf(exchange)],
  })
}

/** The same detail for mistyped and unknown keys, so that only holders of a real key learn more. */
function invalidKey(exchange: Exchange): Refusal {
  return refusal('invalid_key', {
    detail: 'There is no such key. Check that it is complete and unaltered.',
    headers: ['www-authenticate', `${challengeOf(exchange)}, error="invalid_key"`],
  })
}

function publicDetail({ code }: SignInRefusal): string {
  if (code === 'tenant_unknown') return 'The access token names a tenant that does not exist.'
  return code.startsWith('tenant_')
    ? 'The access token names no tenant.'
    : 'The access token does not verify, or has expired.'
}

function invalidToken(detail: string): Refusal {
  return refusal('invalid_token', {
    detail,
    headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
  })
}

const notGranted = `The access token does not grant the tenant that the header ${tenantHeader} names. Name one of \`allowed\`, or sign in again after access was given.`
const nameOne = `This person may work in several tenants. Name one of \`allowed\` in the header ${tenantHeader}; GET /api/v1/whoami lists them.`

function refusedKey(exchange: Exchange, code: KeyRefusal): Refusal {
  return refusal(code, refusalAnswer(exchange, code))
}
