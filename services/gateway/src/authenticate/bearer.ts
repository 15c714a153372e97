import { hash } from 'node:crypto'
import { type Role, roles, uuidSchema } from '@postern/contracts'
import type { Logger } from '@postern/service-kit'
import { type JWTPayload, createRemoteJWKSet, errors, jwtVerify } from 'jose'
import { request } from 'undici'
import { z } from 'zod'
import type { OidcConfig } from '../config.ts'
import { createShortMemory } from './short-memory.ts'

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
  | { readonly kind: 'invalid'; readonly detail: string }
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  verify(text: string): Promise<TokenCheck>
}

/** Only signatures by a key pair: a token must never be something that we could have made. */
const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']
const clockToleranceSeconds = 5
const maxTokenCharacters = 8192
const maxKnown = 10_000
/** A token that was verified is not verified again for this long; its own expiry is checked each time. */
const knownTtlMs = 30_000
const discoveryTimeoutMs = 3000

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url() })

/** Checks access tokens (RFC 9068 in substance) of one issuer, whose keys it finds by OpenID Connect Discovery. */
export function createTokenVerifier(oidc: OidcConfig, logger: Logger): TokenVerifier {
  const known = createShortMemory<VerifiedToken>({
    max: maxKnown,
    ttlMs: knownTtlMs,
    now: () => performance.now(),
  })
  let keySet: ReturnType<typeof createRemoteJWKSet> | undefined

  async function keys(): Promise<ReturnType<typeof createRemoteJWKSet>> {
    keySet ??= createRemoteJWKSet(await discover(oidc.issuer), { timeoutDuration: discoveryTimeoutMs })
    return keySet
  }

  return {
    verify: async (text) => {
      if (text.length > maxTokenCharacters) return { kind: 'invalid', detail: 'The access token is too long.' }
      const digest = hash('sha256', text, 'base64')
      const before = known.get(digest)
      if (before !== undefined && Date.now() < before.expiresAt) return { kind: 'valid', token: before }
      try {
        const { payload } = await jwtVerify(text, await keys(), {
          issuer: oidc.issuer,
          audience: oidc.audience,
          algorithms,
          clockTolerance: clockToleranceSeconds,
          requiredClaims: ['exp', 'sub'],
        })
        const token = readClaims(payload, oidc)
        if (token === undefined) {
          return { kind: 'invalid', detail: `The access token lacks a tenant (${oidc.tenantClaim}).` }
        }
        known.set(digest, token)
        return { kind: 'valid', token }
      } catch (error) {
        if (isOfTheToken(error)) return { kind: 'invalid', detail: 'The access token does not verify, or has expired.' }
        logger.warn({ event: 'token_check_unavailable', err: error })
        return { kind: 'unavailable' }
      }
    },
  }
}

async function discover(issuer: string): Promise<URL> {
  // A slash at the end belongs to the name, not to this address (OIDC Discovery §4.1).
  const answer = await request(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {
    headersTimeout: discoveryTimeoutMs,
    bodyTimeout: discoveryTimeoutMs,
  })
  if (answer.statusCode !== 200) {
    await answer.body.dump()
    throw new Error(`discovery answered ${answer.statusCode}`)
  }
  const document = discoverySchema.parse(await answer.body.json())
  // A document that speaks for another issuer must not lend its keys to this one (OIDC Discovery §4.3).
  if (document.issuer !== issuer) throw new Error('discovery names another issuer')
  return new URL(document.jwks_uri)
}

/** Errors that are the token's own fault. All else (issuer out of reach) says nothing about the token. */
function isOfTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid) &&
    error.code !== 'ERR_JOSE_GENERIC'
  )
}

const rolesSchema = z.array(z.string()).catch([])

function readClaims(payload: JWTPayload, oidc: OidcConfig): VerifiedToken | undefined {
  const tenant = uuidSchema.safeParse(payload[oidc.tenantClaim])
  const { sub, exp, name } = payload
  if (!tenant.success || sub === undefined || sub === '' || exp === undefined) return undefined
  const given = rolesSchema.parse(payload[oidc.rolesClaim])
  return {
    subject: sub,
    name: typeof name === 'string' ? name.slice(0, 200).toWellFormed() : sub,
    tenantId: tenant.data,
    roles: roles.filter((role) => given.includes(role)),
    expiresAt: exp * 1000,
  }
}
