import { type ProblemCode, isScimTarget } from '@postern/contracts'
import type { Exchange, ProblemAnswer } from '../exchange.ts'
import type { FailedAttempts } from '../limit/failed-attempts.ts'
import type { Limits, RateLimit, Verdict } from '../limit/rate-limit.ts'
import type { Usage } from '../usage.ts'
import type { TokenVerifier, VerifiedToken } from './bearer.ts'
import type { DatabaseClock } from './clocks.ts'
import { holdsKey, parseCredentials } from './credentials.ts'
import { type KeyRefusal, decideKey } from './decide.ts'
import type { Floors } from './floors.ts'
import type { KeyEntry, KeyLookup } from './key-lookup.ts'
import { type Principal, userPrincipal } from './principal.ts'
import { challengeOf, refusalAnswer } from './refusal-answer.ts'
import type { TenantLookup } from './tenant-lookup.ts'

/** Where an authentication leads, for all requests. Exactly one of the outcomes ends a request. */
export interface Outcomes {
  /**
   * The caller is accepted at this very moment; what follows must happen in this tick. Gives back limits when tokens must
   * be fetched first: the caller is then judged again before `accepted` is called once more, with `hasToken`.
   */
  readonly accepted: (exchange: Exchange, principal: Principal, hasToken: boolean) => 'done' | Limits
  readonly refused: (exchange: Exchange, code: ProblemCode, answer: ProblemAnswer) => void
  /** Refused by form alone: there are no credentials, or what there is can be none. Nothing was looked up. */
  readonly unreadable: (exchange: Exchange, code: ProblemCode, answer: ProblemAnswer) => void
  readonly limited: (exchange: Exchange, verdict: Extract<Verdict, { kind: 'refused' }>) => void
  /** Called before the request waits for a look-up. Returns false if too much waits already; the request has been refused then. */
  readonly mayWait: (exchange: Exchange) => boolean
  /** The client went away before it was known who it is. */
  readonly gone: (exchange: Exchange) => void
}

export type Authenticate = (exchange: Exchange, outcomes: Outcomes) => void

export interface AuthenticateParts {
  readonly keys: KeyLookup
  readonly tenants: TenantLookup
  /** Undefined where no issuer is configured. */
  readonly tokens: TokenVerifier | undefined
  readonly floors: Floors
  readonly databaseClock: DatabaseClock
  readonly rateLimit: Pick<RateLimit, 'take'>
  /** Counted apart: whoever sends tokens that are forged, or of tenants that there are not, keeps no key from its work. */
  readonly failedAttempts: { readonly keys: FailedAttempts; readonly tokens: FailedAttempts }
  readonly usage: Pick<Usage, 'denied'>
  /** Counts the requests whose key was in memory. */
  readonly found: { inMemory: number }
  readonly onCrash: (exchange: Exchange, error: unknown) => void
}

/** Records that are overtaken while a request waits are read again; a request that never gets to run is refused. */
const maxRounds = 5
const maxSuspectTokens = 256

/** Makes step one. HOT PATH: a key in memory is judged without a promise. */
export function createAuthenticate(parts: AuthenticateParts): Authenticate {
  const { keys, tenants, tokens, floors, databaseClock, rateLimit, failedAttempts, usage, found, onCrash } = parts
  /** Tokens of addresses that sent many forged ones are verified one at a time. */
  const suspects = createQueue(maxSuspectTokens)

  /** Judges an entry now. 'again' when it must be read again, limits when tokens must be fetched. */
  function judge(
    exchange: Exchange,
    entry: KeyEntry,
    hasToken: boolean,
    outcomes: Outcomes,
  ): 'done' | 'again' | Limits {
    const decision = decideKey(entry, floors, databaseClock, exchange.address)
    if (decision === 'outdated') return 'again'
    if (decision === 'accepted') {
      exchange.key = entry
      return outcomes.accepted(exchange, entry.principal, hasToken)
    }
    exchange.principal = entry.principal
    if (decision === 'key_revoked') usage.denied(entry.principal, exchange.address, 'revoked')
    if (decision === 'key_expired') usage.denied(entry.principal, exchange.address, 'expired')
    if (decision === 'address_not_allowed') usage.denied(entry.principal, exchange.address, 'address')
    refuseKey(exchange, decision, outcomes)
    return 'done'
  }

  async function judgeSlowly(exchange: Exchange, hash: string, outcomes: Outcomes): Promise<void> {
    let hasToken = false
    for (let round = 0; round < maxRounds; round += 1) {
      const entry = keys.find(hash) ?? (await lookUp(exchange, hash, outcomes))
      if (entry === undefined) return
      // No await between here and the dispatch, save for tokens: then the round begins again.
      if (exchange.response.destroyed) {
        outcomes.gone(exchange)
        return
      }
      const next = judge(exchange, entry, hasToken, outcomes)
      if (next === 'done') return
      if (next === 'again') continue
      const verdict = await rateLimit.take(next)
      if (verdict.kind === 'refused') {
        outcomes.limited(exchange, verdict)
        return
      }
      hasToken = true
    }
    unavailable(exchange, outcomes)
  }

  async function lookUp(exchange: Exchange, hash: string, outcomes: Outcomes): Promise<KeyEntry | undefined> {
    // Behind an address of which many keys were refused there may be good ones: they are looked up still, one batch at a time.
    const waitSeconds = failedAttempts.keys.waitSeconds(exchange.address)
    const isSuspect = waitSeconds > 0
    if (floors.isRevoked(hash)) {
      // Known dead: no answer of anyone else is needed. The look-up only tells whose key it was, for the audit trail.
      keys.obtain(hash, isSuspect).then(
        (obtained) => {
          if (obtained.kind === 'found') usage.denied(obtained.entry.principal, exchange.address, 'revoked')
        },
        (error: unknown) => onCrash(exchange, error),
      )
      refuseKey(exchange, 'key_revoked', outcomes)
      return undefined
    }
    const obtained = await keys.obtain(hash, isSuspect)
    switch (obtained.kind) {
      case 'found':
        return obtained.entry
      case 'unknown':
        failedAttempts.keys.note(exchange.address)
        if (isSuspect) tooManyFailures(exchange, waitSeconds, outcomes)
        else invalidKey(exchange, outcomes.refused)
        return undefined
      case 'unavailable':
        if (isSuspect) tooManyFailures(exchange, waitSeconds, outcomes)
        else unavailable(exchange, outcomes)
        return undefined
      default:
        return obtained satisfies never
    }
  }

  async function checkToken(
    exchange: Exchange,
    text: string,
    { verify }: TokenVerifier,
    outcomes: Outcomes,
  ): Promise<VerifiedToken | undefined> {
    const waitSeconds = failedAttempts.tokens.waitSeconds(exchange.address)
    const check = waitSeconds === 0 ? await verify(text) : await suspects(async () => await verify(text))
    if (check === undefined || (waitSeconds > 0 && check.kind === 'invalid')) {
      if (check?.kind === 'invalid' && check.isForged) failedAttempts.tokens.note(exchange.address)
      tooManyFailures(exchange, waitSeconds, outcomes)
      return undefined
    }
    if (check.kind === 'valid') return check.token
    if (check.kind === 'unavailable') {
      unavailable(exchange, outcomes)
      return undefined
    }
    if (check.isForged) failedAttempts.tokens.note(exchange.address)
    invalidToken(exchange, outcomes.refused, check.detail)
    return undefined
  }

  async function judgeToken(exchange: Exchange, text: string, outcomes: Outcomes): Promise<void> {
    if (tokens === undefined) {
      invalidToken(exchange, outcomes.unreadable, 'Access tokens are not accepted here. Send Authorization: ApiKey.')
      return
    }
    const token = tokens.find(text) ?? (await checkToken(exchange, text, tokens, outcomes))
    if (token === undefined) return
    let hasToken = false
    for (let round = 0; round < maxRounds; round += 1) {
      const tenant = await tenants.obtain(token.tenantId)
      if (exchange.response.destroyed) {
        outcomes.gone(exchange)
        return
      }
      if (tenant.kind === 'unavailable') break
      if (tenant.kind === 'unknown') {
        failedAttempts.tokens.note(exchange.address)
        invalidToken(exchange, outcomes.refused, 'The access token names a tenant that does not exist.')
        return
      }
      const principal = userPrincipal(token, tenant.tenant)
      if (tenant.tenant.tenantStatus !== 'active') {
        exchange.principal = principal
        refuseKey(exchange, 'tenant_suspended', outcomes)
        return
      }
      exchange.tenant = tenant.tenant
      const next = outcomes.accepted(exchange, principal, hasToken)
      if (next === 'done') return
      const verdict = await rateLimit.take(next)
      if (verdict.kind === 'refused') {
        outcomes.limited(exchange, verdict)
        return
      }
      hasToken = true
    }
    unavailable(exchange, outcomes)
  }

  return (exchange, outcomes) => {
    const header = exchange.headers.read.authorization
    if (header === undefined) {
      if (holdsMisplacedKey(exchange)) misplacedKey(exchange, 'missing_credentials', outcomes)
      else missing(exchange, outcomes)
      return
    }
    const credentials = parseCredentials(header, isScimTarget(exchange.target))
    switch (credentials.kind) {
      case 'api_key': {
        const { hash } = credentials.key
        const entry = keys.find(hash)
        if (entry !== undefined) {
          found.inMemory += 1
          if (judge(exchange, entry, false, outcomes) === 'done') return
        }
        if (!outcomes.mayWait(exchange)) return
        judgeSlowly(exchange, hash, outcomes).catch((error: unknown) => onCrash(exchange, error))
        return
      }
      case 'bearer':
        if (!outcomes.mayWait(exchange)) return
        judgeToken(exchange, credentials.token, outcomes).catch((error: unknown) => onCrash(exchange, error))
        return
      case 'misplaced_key':
        misplacedKey(exchange, 'invalid_key', outcomes)
        return
      case 'malformed':
        if (credentials.scheme === undefined) {
          missing(exchange, outcomes)
          return
        }
        if (credentials.scheme === 'ApiKey') {
          failedAttempts.keys.note(exchange.address)
          invalidKey(exchange, outcomes.unreadable)
        } else invalidToken(exchange, outcomes.unreadable, 'The Authorization header does not hold a bearer token.')
        return
      default:
        credentials satisfies never
    }
  }
}

function tooManyFailures(exchange: Exchange, waitSeconds: number, outcomes: Outcomes): void {
  outcomes.refused(exchange, 'too_many_requests', {
    detail: 'Too many failed authentications from this address.',
    retryAfterSeconds: waitSeconds,
  })
}

/** Runs work one at a time, in turn; undefined where too much waits already. */
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

/** Where people send keys who know other APIs. */
const otherHeaders = [
  'x-api-key',
  'api-key',
  'apikey',
  'x-auth-token',
  'x-access-token',
  'x-auth-key',
  'token',
] as const

function holdsMisplacedKey({ request, target }: Exchange): boolean {
  if (holdsKey(target)) return true
  return otherHeaders.some((name) => {
    const value = request.headers[name]
    return typeof value === 'string' && holdsKey(value)
  })
}

/** Nothing is looked up, and nothing of the value is repeated. */
function misplacedKey(exchange: Exchange, code: 'missing_credentials' | 'invalid_key', outcomes: Outcomes): void {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  const inUrl = holdsKey(exchange.target)
  const where = inUrl ? 'in the URL, where proxies and logs keep it: replace the key' : 'in a form that is not read'
  outcomes.unreadable(exchange, code, {
    detail: `The request has an API key ${where}. Send it as Authorization: ${scheme}, one space and the key, without quotes or encoding.`,
    headers: ['www-authenticate', `${challengeOf(exchange)}${code === 'invalid_key' ? ', error="invalid_key"' : ''}`],
  })
}

function missing(exchange: Exchange, outcomes: Outcomes): void {
  const scheme = isScimTarget(exchange.target) ? 'Bearer' : 'ApiKey'
  outcomes.unreadable(exchange, 'missing_credentials', {
    detail: `Send Authorization: ${scheme} followed by one space and your key.`,
    headers: ['www-authenticate', challengeOf(exchange)],
  })
}

/** The same words for a mistyped, a made-up and an unknown key: only the holder of a true key learns more. */
function invalidKey(exchange: Exchange, refuse: Outcomes['refused']): void {
  refuse(exchange, 'invalid_key', {
    detail: 'There is no such key. Check that it is complete and unaltered.',
    headers: ['www-authenticate', `${challengeOf(exchange)}, error="invalid_key"`],
  })
}

function invalidToken(exchange: Exchange, refuse: Outcomes['refused'], detail: string): void {
  refuse(exchange, 'invalid_token', {
    detail,
    headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
  })
}

function unavailable(exchange: Exchange, outcomes: Outcomes): void {
  outcomes.refused(exchange, 'auth_unavailable', {
    detail: 'The credentials can be neither accepted nor refused at the moment. Try again.',
    retryAfterSeconds: 1,
  })
}

function refuseKey(exchange: Exchange, refusal: KeyRefusal, outcomes: Outcomes): void {
  outcomes.refused(exchange, refusal, refusalAnswer(exchange, refusal))
}
