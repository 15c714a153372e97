import { hash } from 'node:crypto'
import { type Role, roles, uuidSchema } from '@postern/contracts'
import { type Logger, isProtectedUrl } from '@postern/service-kit'
import { type JWTPayload, createRemoteJWKSet, customFetch, errors, jwtVerify } from 'jose'
import { z } from 'zod'
import type { OidcConfig } from '../config.ts'
import { createTtlCache } from './ttl-cache.ts'

export interface VerifiedToken {
  readonly subject: string
  readonly name: string
  readonly tenantId: string
  readonly roles: readonly Role[]
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

export type TokenCheck =
  | { readonly kind: 'valid'; readonly token: VerifiedToken }
  /** Forged: the form of the provider's tokens with an invalid signature. */
  | { readonly kind: 'invalid'; readonly detail: string; readonly isForged: boolean }
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  /** Finds a recently verified token that has not expired. */
  find(text: string): VerifiedToken | undefined
  /** Verifies signature and claims. */
  verify(text: string): Promise<TokenCheck>
}

/** Only asymmetric signatures, which the gateway could not create. */
const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']
const clockToleranceSeconds = 5
const maxTokenCharacters = 8192
const maxKnown = 10_000
/** The expiry is checked each time. */
const knownTtlMs = 30_000
/** For discovery and keys together. */
const keysTimeoutMs = 3000
/** The pause after a failure of the provider, because each invented token would ask it again. */
const pauseMs = 1000
/** Until then tokens with unknown key ids get 401, because strangers could cause 503 with invented ones. */
const keysReadEveryMs = 5000
/** OpenID Connect Core §2. */
const maxSubjectCharacters = 255
const maxNameCharacters = 200
/** With the longest subject the context still fits its header. */
const maxEncodedName = 1200
/** The last second that RFC 3339 can write, in seconds since the epoch. */
const lastSecond = 253_402_300_799

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url() })
const keySetSchema = z.looseObject({ keys: z.array(z.looseObject({})) })

/** Verifies access tokens (similar to RFC 9068) of one issuer, with keys from OpenID Connect Discovery. */
export function createTokenVerifier(oidc: OidcConfig, logger: Logger): TokenVerifier {
  const known = createTtlCache<VerifiedToken>({
    max: maxKnown,
    ttlMs: knownTtlMs,
    now: () => performance.now(),
  })
  const keys = openKeySet(oidc.issuer)
  // Many requests share a failure, which is logged once.
  const told = new WeakSet<object>()

  return {
    find: (text) => {
      const token = known.get(digestOf(text))
      return token !== undefined && Date.now() < token.expiresAt ? token : undefined
    },
    verify: async (text) => {
      if (text.length > maxTokenCharacters) return refused('The access token is too long.')
      try {
        const { payload } = await jwtVerify(text, keys, {
          issuer: oidc.issuer,
          audience: oidc.audience,
          algorithms,
          clockTolerance: clockToleranceSeconds,
          requiredClaims: ['exp', 'sub'],
        })
        const read = readClaims(payload, oidc)
        if (typeof read === 'string') return refused(read)
        known.set(digestOf(text), read)
        return { kind: 'valid', token: read }
      } catch (error) {
        if (error instanceof errors.JWSSignatureVerificationFailed) return { ...unverified, isForged: true }
        // Other errors say nothing about the token.
        if (error instanceof errors.JOSEError) return unverified
        if (!told.has(Object(error))) logger.warn({ event: 'token_check_unavailable', err: error })
        told.add(Object(error))
        return { kind: 'unavailable' }
      }
    },
  }
}

const digestOf = (text: string): string => hash('sha256', text, 'base64')

const refused = (detail: string) => ({ kind: 'invalid', detail, isForged: false }) as const
const unverified = refused('The access token does not verify, or has expired.')

/** Repeats discovery each time. If keys cannot be read, those of the last ten minutes are used. */
function openKeySet(issuer: string): ReturnType<typeof createRemoteJWKSet> {
  let failure: { readonly error: unknown; readonly at: number } | undefined
  return createRemoteJWKSet(new URL(issuer), {
    timeoutDuration: keysTimeoutMs,
    cooldownDuration: keysReadEveryMs,
    [customFetch]: async (_issuer, options) => {
      if (failure !== undefined && performance.now() - failure.at < pauseMs) throw failure.error
      try {
        const keysAt = await discover(issuer, options)
        return Response.json(keySetSchema.parse(await readJson(keysAt, options, 'key set')))
      } catch (cause) {
        // jose wraps this error for each waiting token.
        const isLate = cause instanceof Error && cause.name === 'TimeoutError'
        const error = isLate ? new Error('the provider takes too long to answer', { cause }) : cause
        failure = { error, at: performance.now() }
        throw error
      }
    },
  })
}

async function discover(issuer: string, options: RequestInit): Promise<string> {
  // A final slash belongs only to the issuer (OIDC Discovery, section 4.1).
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const document = discoverySchema.parse(await readJson(address, options, 'discovery'))
  // OIDC Discovery, section 4.3.
  if (document.issuer !== issuer) throw new Error('discovery names another issuer')
  // Over plain HTTP, anyone on the path could replace the keys.
  if (!isProtectedUrl(document.jwks_uri)) throw new Error('discovery names keys over plain HTTP')
  return document.jwks_uri
}

async function readJson(address: string, options: RequestInit, what: string): Promise<unknown> {
  const answer = await fetch(address, options)
  if (answer.status !== 200) {
    await answer.body?.cancel()
    throw new Error(`${what} answered ${answer.status}`)
  }
  return await answer.json()
}

const rolesSchema = z.array(z.string()).catch([])

/** Returns why the claims are unusable, if they are. */
function readClaims(payload: JWTPayload, oidc: OidcConfig): VerifiedToken | string {
  const tenant = uuidSchema.safeParse(payload[oidc.tenantClaim])
  const { sub = '', exp = 0, name } = payload
  if (!tenant.success || sub === '') return `The access token lacks a tenant (${oidc.tenantClaim}).`
  // It is signed for services, and recorded in logs and rows.
  if (sub.length > maxSubjectCharacters || !sub.isWellFormed() || sub.includes('\0')) {
    return 'The subject of the access token is none that OpenID Connect has.'
  }
  if (exp > lastSecond) return 'The access token ends at no date that there is: exp counts in seconds.'
  const given = rolesSchema.parse(payload[oidc.rolesClaim])
  return {
    subject: sub,
    name: nameOf(name, sub),
    tenantId: tenant.data,
    roles: roles.filter((role) => given.includes(role)),
    expiresAt: exp * 1000,
  }
}

function nameOf(name: unknown, subject: string): string {
  const given = typeof name === 'string' ? cut(name.normalize('NFC')) : ''
  return given === '' ? cut(subject) : given
}

/** Cuts a name to what rows and headers hold. */
function cut(name: string): string {
  let taken = ''
  let encoded = 0
  for (const character of name
    .slice(0, maxNameCharacters + 1)
    .toWellFormed()
    .replaceAll('\0', '\ufffd')) {
    encoded += encodeURIComponent(character).length
    if (taken.length + character.length > maxNameCharacters || encoded > maxEncodedName) break
    taken += character
  }
  return taken
}
