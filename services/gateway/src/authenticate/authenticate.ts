import { isScimTarget } from '@postern/contracts'
import type { Exchange } from '../exchange.ts'
import type { FailedAttempts } from '../limit/failed-attempts.ts'
import type { PublicRequests } from '../limit/public-requests.ts'
import { type Refusal, type ReserveWait, countRequest } from '../refusal.ts'
import { type KeyAuthenticationParts, createKeyAuthentication } from './authenticate-key.ts'
import { type TokenAuthenticationParts, createTokenAuthentication } from './authenticate-token.ts'
import type { TokenVerifier } from './bearer.ts'
import {
  containsMisplacedKey,
  refuseInvalidKey,
  refuseInvalidToken,
  refuseMisplacedKey,
  refuseMissing,
} from './credential-refusals.ts'
import { type KeySchemes, parseCredentials } from './credentials.ts'
import type { Principal } from './principal.ts'

/** Finds the caller and whether it has access now. The result must be used in the same tick. */
export type Authenticate = (exchange: Exchange) => Principal | Refusal | Promise<Principal | Refusal>

type Shared = 'failedAttempts' | 'usage'

export interface AuthenticateParts
  extends Omit<KeyAuthenticationParts, Shared>, Omit<TokenAuthenticationParts, Shared> {
  readonly usage: KeyAuthenticationParts['usage'] & TokenAuthenticationParts['usage']
  readonly tokens: TokenVerifier | undefined
  /** Separate, so that forged tokens do not block valid keys. */
  readonly failedAttempts: { readonly keys: FailedAttempts; readonly tokens: FailedAttempts }
  readonly unreadableRequests: PublicRequests
  readonly reserveWait: ReserveWait
  readonly keySchemes: KeySchemes
}

/** HOT PATH: a key in memory is judged without a promise. */
export function createAuthenticate(parts: AuthenticateParts): Authenticate {
  const { tokens, failedAttempts, unreadableRequests, reserveWait, keySchemes } = parts
  const keys = createKeyAuthentication({ ...parts, failedAttempts: failedAttempts.keys })
  const readToken = createTokenAuthentication({ ...parts, failedAttempts: failedAttempts.tokens })
  const scimKeySchemes = { ...keySchemes, bearer: true }

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
        isMisplaced ? refuseMisplacedKey(exchange, 'missing_credentials') : refuseMissing(exchange),
      )
    }
    const credentials = parseCredentials(header, isScimTarget(exchange.target) ? scimKeySchemes : keySchemes)
    switch (credentials.kind) {
      case 'api_key': {
        const { hash } = credentials.key
        return keys.findInMemory(exchange, hash) ?? reserveWait(exchange) ?? keys.read(exchange, hash)
      }
      case 'bearer':
        if (tokens === undefined) {
          return refuseUnreadable(
            exchange,
            refuseInvalidToken('Access tokens are not accepted here. Send Authorization: ApiKey.'),
          )
        }
        return reserveWait(exchange) ?? readToken(exchange, credentials.token, tokens)
      case 'misplaced_key':
        return refuseUnreadable(exchange, refuseMisplacedKey(exchange, 'invalid_key'))
      case 'malformed':
        if (credentials.scheme === undefined) return refuseUnreadable(exchange, refuseMissing(exchange))
        if (credentials.scheme === 'Bearer') {
          return refuseUnreadable(
            exchange,
            refuseInvalidToken('The Authorization header does not hold a bearer token.'),
          )
        }
        failedAttempts.keys.note(exchange.address)
        return refuseUnreadable(exchange, refuseInvalidKey(exchange))
      default:
        return credentials satisfies never
    }
  }
}
