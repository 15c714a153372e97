import { hash } from 'node:crypto'
import type { Logger } from '@postern/service-kit'
import {
  type KeySet,
  type Person,
  type SignInProvider,
  type SignInRefusal,
  createUserinfoReader,
  openKeySet,
  verifyToken,
} from '@postern/sign-in'
import { createTtlCache } from './ttl-cache.ts'

/** Holds all tenants of the person. Each request chooses one of them. */
export interface VerifiedToken extends Person {
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /** The expiry and the provider's clock tolerance. */
  readonly acceptedUntil: number
}

export type TokenCheck =
  | { readonly kind: 'valid'; readonly token: VerifiedToken }
  /** Forged: the form of the provider's tokens with an invalid signature. */
  | { readonly kind: 'invalid'; readonly refusal: SignInRefusal; readonly isForged: boolean }
  | { readonly kind: 'unavailable' }

export interface TokenVerifier {
  /** Finds a recently verified token that has not expired. */
  find(text: string): VerifiedToken | undefined
  verify(text: string): Promise<TokenCheck>
}

const maxKnown = 10_000
/** The expiry is checked each time. */
const knownTtlMs = 30_000

/** Verifies tokens of the providers, with keys from OpenID Connect Discovery. */
export function createTokenVerifier(providers: readonly SignInProvider[], logger: Logger): TokenVerifier {
  const known = createTtlCache<VerifiedToken>({
    max: maxKnown,
    ttlMs: knownTtlMs,
    now: () => performance.now(),
  })
  const keySets = new Map(providers.map((provider): [string, KeySet] => [provider.issuer, openKeySet(provider)]))
  // Many requests share a failure, which is logged once.
  const logged = new WeakSet<object>()

  function keysOf({ issuer }: SignInProvider): KeySet {
    const keys = keySets.get(issuer)
    if (keys === undefined) throw new Error('the provider has no key set')
    return keys
  }

  const sources = { keysOf, readUserinfo: createUserinfoReader() }

  return {
    find: (text) => {
      const token = known.get(digestOf(text))
      return token !== undefined && Date.now() < token.expiresAt ? token : undefined
    },
    verify: async (text) => {
      try {
        const check = await verifyToken(text, providers, sources)
        if (check.kind === 'refused') return { kind: 'invalid', refusal: check.refusal, isForged: check.isForged }
        const { person, expiresAt, provider } = check
        const token = { ...person, expiresAt, acceptedUntil: expiresAt + provider.clockToleranceSeconds * 1000 }
        known.set(digestOf(text), token)
        return { kind: 'valid', token }
      } catch (error) {
        if (!logged.has(Object(error))) logger.warn({ event: 'token_check_unavailable', err: error })
        logged.add(Object(error))
        return { kind: 'unavailable' }
      }
    },
  }
}

const digestOf = (text: string): string => hash('sha256', text, 'base64')
