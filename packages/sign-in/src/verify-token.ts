import {
  type JWTPayload,
  type JWTVerifyGetKey,
  type ProtectedHeaderParameters,
  decodeJwt,
  decodeProtectedHeader,
  errors,
  jwtVerify,
} from 'jose'
import { type Person, readClaims } from './read-claims.ts'
import { type SignInRefusal, shorten } from './refusal.ts'
import type { SignInProvider } from './settings.ts'

export type TokenCheck =
  /** `expiresAt` in milliseconds since the epoch. */
  | { readonly kind: 'valid'; readonly person: Person; readonly expiresAt: number; readonly provider: SignInProvider }
  /** Forged: the form of the provider's tokens with an invalid signature. */
  | { readonly kind: 'refused'; readonly refusal: SignInRefusal; readonly isForged: boolean }

/** Only asymmetric signatures, which nobody else could create. */
const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']
const maxTokenCharacters = 8192
/** The last second that RFC 3339 can write, in seconds since the epoch. */
const lastSecond = 253_402_300_799

/** Verifies a token of one of the providers. Rejects if the keys of its provider cannot be read. */
export async function verifyToken(
  text: string,
  providers: readonly SignInProvider[],
  keysOf: (provider: SignInProvider) => JWTVerifyGetKey,
): Promise<TokenCheck> {
  const opened = openToken(text, providers)
  if (opened.kind === 'refused') return opened
  const { provider, claims, header } = opened
  try {
    const { payload } = await jwtVerify(text, keysOf(provider), {
      issuer: provider.issuer,
      audience: [...provider.audience],
      algorithms,
      clockTolerance: provider.clockToleranceSeconds,
      requiredClaims: ['exp', 'sub'],
    })
    return readPayload(provider, payload, header)
  } catch (error) {
    // Other errors say nothing about the token.
    if (!(error instanceof errors.JOSEError)) throw error
    const isForged = error instanceof errors.JWSSignatureVerificationFailed
    return { kind: 'refused', refusal: explainError(error, provider, claims, header), isForged }
  }
}

/** Reads a token like `verifyToken`, but without its signature. For explanations, never for access. */
export function inspectToken(text: string, providers: readonly SignInProvider[], now: number): TokenCheck {
  const opened = openToken(text, providers)
  if (opened.kind === 'refused') return opened
  const { provider, claims, header } = opened
  const given = [claims.aud ?? []].flat()
  if (!given.some((audience) => provider.audience.includes(audience))) return refused(otherAudience(provider, claims))
  const [seconds, tolerance] = [now / 1000, provider.clockToleranceSeconds]
  if (typeof claims.exp === 'number' && claims.exp <= seconds - tolerance)
    return refused(expired(provider, claims, now))
  if (typeof claims.nbf === 'number' && claims.nbf > seconds + tolerance) return refused(early(provider, claims, now))
  return readPayload(provider, claims, header)
}

interface OpenToken {
  readonly kind: 'open'
  readonly provider: SignInProvider
  readonly claims: JWTPayload
  readonly header: ProtectedHeaderParameters
}

function openToken(text: string, providers: readonly SignInProvider[]): OpenToken | (TokenCheck & { kind: 'refused' }) {
  if (text.length > maxTokenCharacters) return refused({ code: 'token_too_long', found: `${text.length} characters` })
  let claims: JWTPayload
  let header: ProtectedHeaderParameters
  try {
    claims = decodeJwt(text)
    header = decodeProtectedHeader(text)
  } catch {
    return refused({ code: 'not_a_jwt' })
  }
  const provider = providers.find(({ issuer }) => issuer === claims.iss)
  const wanted = providers.map(({ issuer }) => issuer).join(' or ')
  if (provider === undefined) return refused({ code: 'other_issuer', found: shorten(claims.iss), wanted })
  return { kind: 'open', provider, claims, header }
}

function refused(refusal: SignInRefusal): TokenCheck & { kind: 'refused' } {
  return { kind: 'refused', refusal, isForged: false }
}

function readPayload(provider: SignInProvider, claims: JWTPayload, header: ProtectedHeaderParameters): TokenCheck {
  const { exp = Number.NaN } = claims
  if (!(exp <= lastSecond)) return refused({ code: 'expiry_invalid', found: shorten(claims.exp) })
  const kind = kindOf(claims, header)
  if (kind !== undefined && kind !== provider.read) {
    return refused({ code: 'wrong_token_kind', found: kind, wanted: provider.read })
  }
  const { azp } = claims
  // OpenID Connect Core §3.1.3.7.
  if (provider.read === 'id_token' && azp !== undefined && azp !== provider.clientId) {
    return refused({ code: 'other_audience', read: ['/azp'], found: shorten(azp), wanted: shorten(provider.clientId) })
  }
  const reading = readClaims(provider, claims)
  if (reading.kind === 'refused') return refused(reading.refusal)
  return { kind: 'valid', person: reading.person, expiresAt: exp * 1000, provider }
}

/** Undefined: the token does not say. Keycloak marks its tokens with `typ`; RFC 9068 names `at+jwt`. */
function kindOf(claims: JWTPayload, { typ }: ProtectedHeaderParameters): string | undefined {
  const { typ: own, nonce, at_hash: hash, events } = claims
  if (events !== undefined) return 'logout_token'
  if (/^(?:application\/)?at\+jwt$/i.test(typ ?? '') || own === 'Bearer') return 'access_token'
  return own === 'ID' || nonce !== undefined || hash !== undefined ? 'id_token' : undefined
}

function explainError(
  error: errors.JOSEError,
  provider: SignInProvider,
  claims: JWTPayload,
  { alg, kid }: ProtectedHeaderParameters,
): SignInRefusal {
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return { code: 'signature_invalid', found: `kid ${shorten(kid)}` }
  if (error instanceof errors.JWTExpired) return expired(provider, claims, Date.now())
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return { code: 'algorithm_not_accepted', found: shorten(alg), wanted: algorithms.join(', ') }
  }
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) {
    return { code: 'unknown_key', found: `kid ${shorten(kid)}` }
  }
  if (!(error instanceof errors.JWTClaimValidationFailed)) return { code: 'not_a_jwt' }
  switch (error.claim) {
    case 'aud':
      return otherAudience(provider, claims)
    case 'nbf':
      return early(provider, claims, Date.now())
    case 'sub':
      return { code: 'subject_invalid', read: ['/sub'], found: shorten(claims.sub) }
    default:
      return { code: 'expiry_invalid', found: shorten(claims.exp) }
  }
}

function otherAudience({ audience }: SignInProvider, { aud }: JWTPayload): SignInRefusal {
  return { code: 'other_audience', read: ['/aud'], found: shorten(aud), wanted: audience.map(shorten).join(' or ') }
}

function expired({ clockToleranceSeconds }: SignInProvider, { exp = 0 }: JWTPayload, now: number): SignInRefusal {
  const found = `expired ${Math.floor(now / 1000 - exp)} s ago`
  return { code: 'token_expired', read: ['/exp'], found, wanted: `at most ${clockToleranceSeconds} s` }
}

function early({ clockToleranceSeconds }: SignInProvider, { nbf = 0 }: JWTPayload, now: number): SignInRefusal {
  const found = `valid in ${Math.ceil(nbf - now / 1000)} s`
  return { code: 'token_not_yet_valid', read: ['/nbf'], found, wanted: `at most ${clockToleranceSeconds} s` }
}
