import { isProtectedUrl } from '@postern/contracts/internal'
import { type JWTVerifyGetKey, type RemoteJWKSet, createRemoteJWKSet, decodeJwt } from 'jose'
import type { SignInProvider, SignInRefusal } from '@postern/sign-in'
import * as openid from 'openid-client'
import type { Config, ProviderConfig } from '../config.ts'
import { explainDiscovery, explainFailure } from './explain-failure.ts'
import { verifyIdToken } from './id-token.ts'
import { type LogoutNotice, verifyLogoutToken } from './logout-token.ts'

export interface Tokens {
  readonly access: string
  readonly refresh: string | undefined
  /** The ID token, if there is a new one. */
  readonly id: string | undefined
  readonly accessExpiresAt: number
}

export interface Secrets {
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

export interface SignedIn {
  readonly tokens: Tokens
  readonly subject: string
  readonly sid: string | undefined
  readonly name: string | undefined
  readonly email: string | undefined
}

export type Renewal =
  | { readonly kind: 'renewed'; readonly tokens: Tokens }
  | { readonly kind: 'ended' }
  | { readonly kind: 'unavailable'; readonly cause: unknown }

/** A response that must not sign anybody in; the cause is for the log. */
export class SignInRefused extends Error {
  readonly reason: 'cancelled' | 'not_valid'
  readonly refusal: SignInRefusal | undefined

  constructor(reason: 'cancelled' | 'not_valid', cause: unknown, refusal?: SignInRefusal) {
    super(reason, { cause })
    this.name = 'SignInRefused'
    this.reason = reason
    this.refusal = refusal
  }
}

/** The cause is for the log. */
export class ProviderUnavailable extends Error {
  readonly refusal: SignInRefusal | undefined

  constructor(cause: unknown, refusal?: SignInRefusal) {
    super('the provider cannot be reached', { cause })
    this.name = 'ProviderUnavailable'
    this.refusal = refusal
  }
}

export interface Provider {
  readonly settings: SignInProvider
  /** Throws ProviderUnavailable. */
  signInUrl(secrets: Secrets): Promise<URL>
  /** Redeems the code. Throws SignInRefused or ProviderUnavailable. */
  finish(callback: URL, secrets: Secrets): Promise<SignedIn>
  refresh(refreshToken: string, subject: string): Promise<Renewal>
  /** Returns the failure, if any: the local session has ended anyway. */
  revoke(refreshToken: string): Promise<unknown>
  /** Whether the provider has a sign-out page. False if it is unavailable. */
  hasSignOut(): Promise<boolean>
  /**
   * Returns undefined if the provider has no sign-out page or is unavailable. Without an ID token the provider asks the
   * person to confirm.
   */
  signOutUrl(idToken: string | undefined): Promise<URL | undefined>
  /** Returns undefined if the token is invalid. Throws ProviderUnavailable. */
  readLogoutToken(token: string): Promise<LogoutNotice | undefined>
}

const timeoutSeconds = 5
/** Discovery, keys, tokens, and the keys again for an unknown key id. */
export const refreshWithinMs = 4 * timeoutSeconds * 1000
const metadataLifeMs = 3_600_000
const defaultLifeSeconds = 300
/** Quarkus, on which Keycloak runs, refuses a request line of more than 4,096 bytes. */
const maxUrlCharacters = 4000
const keysTimeout = { timeoutDuration: timeoutSeconds * 1000 } as const
/** Anybody can begin a sign-in and return from it with a code that the provider never gave. */
export const maxOpenRedemptions = 64
/** Limits how often forged logout tokens make the console read keys. Short, because providers do not repeat a notice. */
const keysCooldownMs = 1000

interface DiscoveredProvider {
  readonly client: openid.Configuration
  readonly idTokenKeys: RemoteJWKSet
  readonly logoutKeys: JWTVerifyGetKey
  readonly readAt: number
}

export function createProvider(
  provider: ProviderConfig,
  { url: consoleUrl }: Pick<Config, 'url'>,
  now: () => number,
): Provider {
  const redirectUri = `${consoleUrl}/auth/callback`
  const resource = provider.resource === undefined ? {} : { resource: provider.resource }
  let known: DiscoveredProvider | undefined
  let reading: Promise<DiscoveredProvider> | undefined
  let openRedemptions = 0

  async function discover(): Promise<DiscoveredProvider> {
    const client = await openid.discovery(
      new URL(provider.issuer),
      provider.clientId,
      undefined,
      authentication(provider.clientSecret),
      {
        timeout: timeoutSeconds,
        execute: isPlainHttp(provider.issuer) ? [openid.allowInsecureRequests] : [],
      },
    )
    client.timeout = timeoutSeconds
    const { jwks_uri: keysUrl } = client.serverMetadata()
    if (keysUrl === undefined) throw new Error('discovery names no keys')
    // Over plain HTTP, anyone on the path could replace the keys.
    if (!isPlainHttp(provider.issuer) && !isProtectedUrl(keysUrl))
      throw new Error('discovery names keys over plain HTTP')
    return {
      client,
      // Only the provider sends ID tokens, so an unknown key id is a rotated key.
      idTokenKeys: createRemoteJWKSet(new URL(keysUrl), { ...keysTimeout, cooldownDuration: 0 }),
      logoutKeys: createRemoteJWKSet(new URL(keysUrl), { ...keysTimeout, cooldownDuration: keysCooldownMs }),
      readAt: now(),
    }
  }

  /** One request at a time, however many people sign in. */
  async function find(): Promise<DiscoveredProvider> {
    if (known !== undefined && now() - known.readAt < metadataLifeMs) return known
    reading ??= discover().finally(() => {
      reading = undefined
    })
    try {
      known = await reading
    } catch (error) {
      if (known === undefined) throw new ProviderUnavailable(error, explainDiscovery(error, provider.issuer))
    }
    return known
  }

  /** `access` is the token that the gateway reads. Returns undefined if the provider did not send it. */
  function tokensOf(answer: openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers): Tokens | undefined {
    const [refresh, id] = [answer.refresh_token, answer.id_token]
    if (provider.read === 'access_token') {
      const accessExpiresAt = now() + (answer.expiresIn() ?? defaultLifeSeconds) * 1000
      return { access: answer.access_token, refresh, id, accessExpiresAt }
    }
    const claims = answer.claims()
    if (id === undefined || claims === undefined) return undefined
    const access = provider.read === 'userinfo' ? `${id}~${answer.access_token}` : id
    return { access, refresh, id, accessExpiresAt: claims.exp * 1000 }
  }

  async function findSignOut(): Promise<openid.Configuration | undefined> {
    try {
      const { client } = await find()
      return client.serverMetadata().end_session_endpoint === undefined ? undefined : client
    } catch {
      return undefined
    }
  }

  return {
    settings: provider,
    signInUrl: async ({ state, nonce, codeVerifier }) => {
      const { client } = await find()
      return openid.buildAuthorizationUrl(client, {
        redirect_uri: redirectUri,
        scope: provider.scope,
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
        ...resource,
        ...Object.fromEntries(provider.parameters),
      })
    },
    finish: async (callback, { state, nonce, codeVerifier }) => {
      const { client, idTokenKeys } = await find()
      // The URL comes from the configuration, not from the Host header.
      const answer = new URL(redirectUri)
      answer.search = callback.search
      if (openRedemptions >= maxOpenRedemptions) {
        throw new ProviderUnavailable(new Error('too many sign-ins wait for the provider'))
      }
      openRedemptions += 1
      try {
        const tokens = await openid.authorizationCodeGrant(
          client,
          answer,
          { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true },
          resource,
        )
        await verifySignature(tokens.id_token, idTokenKeys)
        const claims = tokens.claims()
        const kept = tokensOf(tokens)
        if (claims === undefined || kept === undefined) throw new SignInRefused('not_valid', undefined)
        return {
          tokens: kept,
          subject: claims.sub,
          sid: textOf(claims['sid']),
          name: textOf(claims['name']),
          email: textOf(claims['email']),
        }
      } catch (error) {
        throw finishFailure(error, redirectUri)
      } finally {
        openRedemptions -= 1
      }
    },
    refresh: async (refreshToken, subject) => {
      try {
        const { client, idTokenKeys } = await find()
        // Read first: without the keys, the new refresh token could not be accepted and would be lost.
        if (!idTokenKeys.fresh) await idTokenKeys.reload()
        const tokens = await openid.refreshTokenGrant(client, refreshToken, resource)
        await verifySignature(tokens.id_token, idTokenKeys)
        const claims = tokens.claims()
        if (claims !== undefined && claims.sub !== subject) return { kind: 'ended' }
        const kept = tokensOf(tokens)
        return kept === undefined ? { kind: 'ended' } : { kind: 'renewed', tokens: kept }
      } catch (error) {
        if (error instanceof openid.ResponseBodyError && finalErrors.has(error.error)) return { kind: 'ended' }
        return { kind: 'unavailable', cause: error }
      }
    },
    revoke: async (refreshToken) => {
      try {
        const { client } = await find()
        if (client.serverMetadata().revocation_endpoint === undefined) return undefined
        await openid.tokenRevocation(client, refreshToken, { token_type_hint: 'refresh_token' })
        return undefined
      } catch (error) {
        return error
      }
    },
    hasSignOut: async () => (await findSignOut()) !== undefined,
    signOutUrl: async (idToken) => {
      const client = await findSignOut()
      if (client === undefined) return undefined
      const back = { post_logout_redirect_uri: `${consoleUrl}/` }
      if (idToken === undefined) return openid.buildEndSessionUrl(client, back)
      const url = openid.buildEndSessionUrl(client, { ...back, id_token_hint: idToken })
      // Without the hint, the provider asks the person to confirm.
      return url.href.length <= maxUrlCharacters ? url : openid.buildEndSessionUrl(client, back)
    },
    readLogoutToken: async (token) => {
      const { client, logoutKeys: keys } = await find()
      const { issuer } = client.serverMetadata()
      const notice = await verifyLogoutToken(token, { issuer, audience: provider.clientId, keys, now: now() })
      if (notice.kind === 'unavailable') throw new ProviderUnavailable(notice.cause)
      return notice.kind === 'valid' ? notice.notice : undefined
    },
  }
}

/** Throws SignInRefused or ProviderUnavailable. openid-client has verified the claims, but not the signature. */
async function verifySignature(idToken: string | undefined, keys: JWTVerifyGetKey): Promise<void> {
  if (idToken === undefined) return
  const check = await verifyIdToken(idToken, keys)
  if (check.kind === 'unavailable') throw new ProviderUnavailable(check.cause)
  if (check.kind === 'refused') throw new SignInRefused('not_valid', check.cause, check.refusal)
}

function isPlainHttp(issuer: string): boolean {
  return new URL(issuer).protocol === 'http:'
}

/** Uses the header if the provider accepts it (OIDC Core §9), otherwise the body. */
function authentication(secret: string | undefined): openid.ClientAuth {
  if (secret === undefined) return openid.None()
  const [basic, post] = [openid.ClientSecretBasic(secret), openid.ClientSecretPost(secret)]
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    ;(methods.includes('client_secret_basic') ? basic : post)(server, client, body, headers)
  }
}

function textOf(claim: unknown): string | undefined {
  return typeof claim === 'string' && claim !== '' ? claim.slice(0, 320).toWellFormed() : undefined
}

function finishFailure(error: unknown, redirectUri: string): Error {
  if (error instanceof SignInRefused || error instanceof ProviderUnavailable) return error
  const refusal = explainFailure(error, redirectUri)
  if (error instanceof openid.AuthorizationResponseError) return new SignInRefused('cancelled', error, refusal)
  const isRefused =
    error instanceof openid.ResponseBodyError
      ? !isTemporary(error)
      : error instanceof openid.WWWAuthenticateChallengeError ||
        (error instanceof openid.ClientError && !unreachableCodes.has(error.code ?? ''))
  return isRefused ? new SignInRefused('not_valid', error, refusal) : new ProviderUnavailable(error)
}

/** Whether the provider throttles or is overloaded (RFC 6585 §4, RFC 6749 §4.1.2.1). */
function isTemporary({ status, error }: openid.ResponseBodyError): boolean {
  return (
    status >= 500 || status === 408 || status === 429 || error === 'temporarily_unavailable' || error === 'server_error'
  )
}

/**
 * Errors that end this person's sign-in (RFC 6749 §5.2, OIDC Core §3.1.2.6). Others are temporary or concern the
 * client.
 */
const finalErrors: ReadonlySet<string> = new Set([
  'invalid_grant',
  'interaction_required',
  'login_required',
  'consent_required',
  'account_selection_required',
])

const unreachableCodes: ReadonlySet<string> = new Set([
  '',
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
])

/** Returns the issuer that an unverified token names. */
export function findIssuer(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}
