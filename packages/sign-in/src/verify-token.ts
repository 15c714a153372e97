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
import { algorithms, isHashOf } from './signatures.ts'
import type { ReadUserinfo, Userinfo } from './userinfo.ts'

export type TokenCheck =
  /** `expiresAt` in milliseconds since the epoch. */
  | { readonly kind: 'valid'; readonly person: Person; readonly expiresAt: number; readonly provider: SignInProvider }
  /** Forged: the form of the provider's tokens with an invalid signature. */
  | { readonly kind: 'refused'; readonly refusal: SignInRefusal; readonly isForged: boolean }

export interface ProviderSources {
  readonly keysOf: (provider: SignInProvider) => JWTVerifyGetKey
  readonly readUserinfo: ReadUserinfo
}

const maxTokenCharacters = 8192
/** The last second that RFC 3339 can write, in seconds since the epoch. */
const lastSecond = 253_402_300_799

/**
 * Verifies a token of one of the providers: with `read: userinfo` an ID token, `~` and its access token. Rejects if the
 * keys or the userinfo of its provider cannot be read.
 */
export async function verifyToken(
  text: string,
  providers: readonly SignInProvider[],
  sources: ProviderSources,
): Promise<TokenCheck> {
  const opened = openToken(text, providers)
  if (opened.kind === 'refused') return opened
  const { provider, claims, header } = opened
  let payload: JWTPayload
  try {
    const verified = await jwtVerify(opened.jwt, sources.keysOf(provider), {
      issuer: provider.issuer,
      audience: [...provider.audience],
      algorithms,
      clockTolerance: provider.clockToleranceSeconds,
      requiredClaims: ['exp', 'sub'],
    })
    payload = verified.payload
  } catch (error) {
    // Other errors say nothing about the token.
    if (!(error instanceof errors.JOSEError)) throw error
    const isForged = error instanceof errors.JWSSignatureVerificationFailed
    return { kind: 'refused', refusal: explainError(error, provider, claims, header), isForged }
  }
  return await readPayload({ ...opened, claims: payload }, sources)
}

/** Reads a token like `verifyToken`, but without its signature. For explanations, never for access. */
export async function inspectToken(
  text: string,
  providers: readonly SignInProvider[],
  now: number,
  sources: ProviderSources,
): Promise<TokenCheck> {
  const opened = openToken(text, providers)
  if (opened.kind === 'refused') return opened
  const { provider, claims } = opened
  const given = [claims.aud ?? []].flat()
  if (!given.some((audience) => provider.audience.includes(audience))) return refuse(refuseAudience(provider, claims))
  const [seconds, tolerance] = [now / 1000, provider.clockToleranceSeconds]
  if (typeof claims.exp === 'number' && claims.exp <= seconds - tolerance)
    return refuse(refuseExpired(provider, claims, now))
  if (typeof claims.nbf === 'number' && claims.nbf > seconds + tolerance)
    return refuse(refuseEarly(provider, claims, now))
  return await readPayload(opened, sources)
}

interface OpenToken {
  readonly kind: 'open'
  readonly provider: SignInProvider
  readonly jwt: string
  readonly accessToken: string | undefined
  readonly claims: JWTPayload
  readonly header: ProtectedHeaderParameters
}

function openToken(text: string, providers: readonly SignInProvider[]): OpenToken | (TokenCheck & { kind: 'refused' }) {
  if (text.length > maxTokenCharacters) return refuse({ code: 'token_too_long', found: `${text.length} characters` })
  const [jwt = '', ...rest] = text.split('~')
  const accessToken = rest.length === 0 ? undefined : rest.join('~')
  let claims: JWTPayload
  let header: ProtectedHeaderParameters
  try {
    claims = decodeJwt(jwt)
    header = decodeProtectedHeader(jwt)
  } catch {
    return refuse({ code: 'not_a_jwt' })
  }
  const provider = providers.find(({ issuer }) => issuer === claims.iss)
  const wanted = providers.map(({ issuer }) => issuer).join(' or ')
  if (provider === undefined) return refuse({ code: 'other_issuer', found: shorten(claims.iss), wanted })
  return { kind: 'open', provider, jwt, accessToken, claims, header }
}

function refuse(refusal: SignInRefusal): TokenCheck & { kind: 'refused' } {
  return { kind: 'refused', refusal, isForged: false }
}

async function readPayload(opened: OpenToken, sources: ProviderSources): Promise<TokenCheck> {
  const { provider, accessToken, claims, header } = opened
  const { exp = Number.NaN } = claims
  if (!(exp <= lastSecond)) return refuse({ code: 'expiry_invalid', found: shorten(claims.exp) })
  const wanted = provider.read === 'access_token' ? 'access_token' : 'id_token'
  const kind = kindOf(claims, header)
  if (kind !== undefined && kind !== wanted) return refuse({ code: 'wrong_token_kind', found: kind, wanted })
  if (accessToken !== undefined && provider.read !== 'userinfo') {
    return refuse({ code: 'wrong_token_kind', found: 'two tokens', wanted })
  }
  const { azp } = claims
  // OpenID Connect Core §3.1.3.7.
  if (wanted === 'id_token' && azp !== undefined && azp !== provider.clientId) {
    return refuse({ code: 'other_audience', read: ['/azp'], found: shorten(azp), wanted: shorten(provider.clientId) })
  }
  const found =
    provider.read === 'userinfo' ? await readClaimsOf(opened, sources) : ({ kind: 'claims', claims } satisfies Userinfo)
  if (found.kind === 'refused') return refuse(found.refusal)
  const reading = readClaims(provider, found.claims)
  if (reading.kind === 'refused') return refuse(reading.refusal)
  return { kind: 'valid', person: reading.person, expiresAt: exp * 1000, provider }
}

async function readClaimsOf(opened: OpenToken, { keysOf, readUserinfo }: ProviderSources): Promise<Userinfo> {
  const { provider, accessToken, claims, header } = opened
  if (accessToken === undefined) return { kind: 'refused', refusal: { code: 'userinfo_token_absent' } }
  const { at_hash: atHash } = claims
  // Otherwise a person could add a token of another client, with other claims.
  if (atHash !== undefined && !isHashOf(atHash, header.alg, accessToken)) {
    const refusal = { code: 'userinfo_mismatch', read: ['/at_hash'], found: shorten(atHash) } as const
    return { kind: 'refused', refusal }
  }
  return await readUserinfo({ provider, accessToken, idToken: claims, keys: keysOf(provider) })
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
  if (error instanceof errors.JWTExpired) return refuseExpired(provider, claims, Date.now())
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return { code: 'algorithm_not_accepted', found: shorten(alg), wanted: algorithms.join(', ') }
  }
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) {
    return { code: 'unknown_key', found: `kid ${shorten(kid)}` }
  }
  if (!(error instanceof errors.JWTClaimValidationFailed)) return { code: 'not_a_jwt' }
  switch (error.claim) {
    case 'aud':
      return refuseAudience(provider, claims)
    case 'nbf':
      return refuseEarly(provider, claims, Date.now())
    case 'sub':
      return { code: 'subject_invalid', read: ['/sub'], found: shorten(claims.sub) }
    default:
      return { code: 'expiry_invalid', found: shorten(claims.exp) }
  }
}

function refuseAudience({ audience }: SignInProvider, { aud }: JWTPayload): SignInRefusal {
  return { code: 'other_audience', read: ['/aud'], found: shorten(aud), wanted: audience.map(shorten).join(' or ') }
}

function refuseExpired({ clockToleranceSeconds }: SignInProvider, { exp = 0 }: JWTPayload, now: number): SignInRefusal {
  const found = `expired ${Math.floor(now / 1000 - exp)} s ago`
  return { code: 'token_expired', read: ['/exp'], found, wanted: `at most ${clockToleranceSeconds} s` }
}

function refuseEarly({ clockToleranceSeconds }: SignInProvider, { nbf = 0 }: JWTPayload, now: number): SignInRefusal {
  const found = `valid in ${Math.ceil(nbf - now / 1000)} s`
  return { code: 'token_not_yet_valid', read: ['/nbf'], found, wanted: `at most ${clockToleranceSeconds} s` }
}
