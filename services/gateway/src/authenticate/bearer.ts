import { hash } from 'node:crypto'
import { type Role, roles, uuidSchema } from '@postern/contracts'
import { type Logger, isProtectedUrl } from '@postern/service-kit'
import { type JWTPayload, createRemoteJWKSet, customFetch, errors, jwtVerify } from 'jose'
import { z } from 'zod'
import type { OidcConfig } from '../config.ts'
import { createTtlCache } from './ttl-cache.ts'

/** What a verified access token says of a person. */
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
  /** Forged: it has the form of a token of the provider's, and a signature that is not. Only that says that somebody guesses. */
  | { readonly kind: 'invalid'; readonly detail: string; readonly isForged: boolean }
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  /** A token that was verified a moment ago and has not ended since. */
  find(text: string): VerifiedToken | undefined
  /** Checks its signature and what it says. */
  verify(text: string): Promise<TokenCheck>
}

/** Only signatures by a key pair: a token must never be something that we could have made. */
const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']
const clockToleranceSeconds = 5
const maxTokenCharacters = 8192
const maxKnown = 10_000
/** A token that was verified is not verified again for this long; its own expiry is checked each time. */
const knownTtlMs = 30_000
/** For finding the provider's keys and reading them together. */
const keysTimeoutMs = 3000
/** A provider that fails is left alone for so long: anybody can make up tokens, and each would ask it again. */
const pauseMs = 1000
/**
 * So often at most the provider's keys are read again for a token that names another one. Until then such a token is refused: anybody can
 * make one up, and 503 for it would let strangers spend what the platform promises of its errors.
 */
const keysReadEveryMs = 5000
/** Characters of a subject (OpenID Connect Core §2). */
const maxSubjectCharacters = 255
const maxNameCharacters = 200
/** Of a name as services are told of it, percent-encoded: with the longest subject it still leaves room for the rest of the context. */
const maxEncodedName = 1200
/** The last second that a date-time of RFC 3339 can name, in seconds since the epoch. */
const lastSecond = 253_402_300_799

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url() })
const keySetSchema = z.looseObject({ keys: z.array(z.looseObject({})) })

/** Checks access tokens (RFC 9068 in substance) of one issuer, whose keys it finds by OpenID Connect Discovery. */
export function createTokenVerifier(oidc: OidcConfig, logger: Logger): TokenVerifier {
  const known = createTtlCache<VerifiedToken>({
    max: maxKnown,
    ttlMs: knownTtlMs,
    now: () => performance.now(),
  })
  const keys = openKeySet(oidc.issuer)
  // What is shared by many requests is told of once.
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
        // Of the provider no error is one of these: it says nothing about the token.
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

/**
 * The provider's keys. Where they are is asked each time that they are read: a provider that moves them, with or without leaving a copy behind, is followed.
 * While they cannot be read, those that were read in the last ten minutes go on being used.
 */
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
        // jose makes an error of its own of this one, another for each token that waits.
        const isLate = cause instanceof Error && cause.name === 'TimeoutError'
        const error = isLate ? new Error('the provider takes too long to answer', { cause }) : cause
        failure = { error, at: performance.now() }
        throw error
      }
    },
  })
}

async function discover(issuer: string, options: RequestInit): Promise<string> {
  // A slash at the end belongs to the name, not to this address (OIDC Discovery §4.1).
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const document = discoverySchema.parse(await readJson(address, options, 'discovery'))
  // A document that speaks for another issuer must not lend its keys to this one (OIDC Discovery §4.3).
  if (document.issuer !== issuer) throw new Error('discovery names another issuer')
  // Who can change them on the way can sign for anybody.
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

/** What a token says, or why it says nothing that can be taken. */
function readClaims(payload: JWTPayload, oidc: OidcConfig): VerifiedToken | string {
  const tenant = uuidSchema.safeParse(payload[oidc.tenantClaim])
  const { sub = '', exp = 0, name } = payload
  if (!tenant.success || sub === '') return `The access token lacks a tenant (${oidc.tenantClaim}).`
  // It is signed for services, and stands in logs and rows as who has done it.
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

/** The name that a token gives, or the subject where it gives none. */
function nameOf(name: unknown, subject: string): string {
  const given = typeof name === 'string' ? cut(name.normalize('NFC')) : ''
  return given === '' ? cut(subject) : given
}

/** As much of a name as rows and headers hold. */
function cut(name: string): string {
  let taken = ''
  let encoded = 0
  // One more than are taken, so that none is cut in two.
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
