import { hash } from 'node:crypto'
import { isProtectedUrl } from '@postern/contracts/internal'
import { type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { discover, readText } from './key-set.ts'
import type { Claims } from './read-claims.ts'
import { type SignInRefusal, shorten } from './refusal.ts'
import type { SignInProvider } from './settings.ts'
import { algorithms } from './signatures.ts'

export type Userinfo =
  | { readonly kind: 'claims'; readonly claims: Claims }
  | { readonly kind: 'refused'; readonly refusal: SignInRefusal }

export interface UserinfoRequest {
  readonly provider: SignInProvider
  readonly accessToken: string
  /** The verified claims of the ID token from the same answer of the provider. */
  readonly idToken: JWTPayload
  readonly keys: JWTVerifyGetKey
}

/** Rejects if the provider does not answer with claims. */
export type ReadUserinfo = (request: UserinfoRequest) => Promise<Userinfo>

/** For discovery and userinfo together. Less than the console waits for the gateway. */
const timeoutMs = 2000
const maxBytes = 262_144
const maxRememberedCharacters = 33_554_432
const endpointLifeMs = 600_000
const refusals: ReadonlySet<number> = new Set([400, 401, 403])
const claimsSchema = z.record(z.string(), z.unknown())

/** Reads claims from the userinfo endpoint (OpenID Connect Core §5.3), and remembers them until the ID token expires. */
export function createUserinfoReader(): ReadUserinfo {
  const remembered = new LRUCache<string, Claims>({
    maxSize: maxRememberedCharacters,
    sizeCalculation: (claims) => JSON.stringify(claims).length,
    ttlResolution: 0,
  })
  const running = new Map<string, Promise<Userinfo>>()
  const endpoints = new LRUCache<string, string>({ max: 20, ttl: endpointLifeMs })

  async function findEndpoint(provider: SignInProvider, signal: AbortSignal): Promise<string> {
    const { issuer, allowHttp } = provider
    const known = endpoints.get(issuer)
    if (known !== undefined) return known
    const { userinfo_endpoint: endpoint } = await discover(provider, { signal })
    if (endpoint === undefined) throw new Error('discovery names no userinfo endpoint')
    if (!allowHttp && !isProtectedUrl(endpoint)) throw new Error('discovery names userinfo over plain HTTP')
    endpoints.set(issuer, endpoint)
    return endpoint
  }

  async function ask({ provider, accessToken, idToken, keys }: UserinfoRequest, name: string): Promise<Userinfo> {
    const signal = AbortSignal.timeout(timeoutMs)
    const headers = { authorization: `Bearer ${accessToken}`, accept: 'application/json, application/jwt' }
    const answer = await fetch(await findEndpoint(provider, signal), { headers, redirect: 'error', signal })
    if (answer.status !== 200) {
      await answer.body?.cancel()
      if (refusals.has(answer.status)) return refusedBy(answer)
      throw new Error(`userinfo answered ${answer.status}`)
    }
    const type = (answer.headers.get('content-type') ?? 'nothing').split(';')[0]?.trim().toLowerCase()
    const text = await readText(answer, 'userinfo', maxBytes)
    const claims =
      type === 'application/jwt'
        ? (await jwtVerify(text, keys, { issuer: provider.issuer, audience: provider.clientId, algorithms })).payload
        : type === 'application/json'
          ? claimsSchema.parse(JSON.parse(text))
          : undefined
    if (claims === undefined) throw new Error(`userinfo answered with ${type}, not with JSON`)
    // OpenID Connect Core §5.3.2.
    if (typeof claims['sub'] !== 'string' || claims['sub'] !== idToken.sub) {
      const refusal = { code: 'userinfo_mismatch', read: ['/sub'], found: shorten(claims['sub']) } as const
      return { kind: 'refused', refusal: { ...refusal, wanted: shorten(idToken.sub) } }
    }
    const ttl = (idToken.exp ?? 0) * 1000 - Date.now()
    if (ttl > 0) remembered.set(name, claims, { ttl })
    return { kind: 'claims', claims }
  }

  return async (request) => {
    const { provider, accessToken, idToken } = request
    const name = hash('sha256', JSON.stringify([provider.issuer, idToken.sub, idToken.exp, accessToken]), 'base64')
    const known = remembered.get(name)
    if (known !== undefined) return { kind: 'claims', claims: known }
    const reading = running.get(name) ?? ask(request, name).finally(() => running.delete(name))
    running.set(name, reading)
    return await reading
  }
}

function refusedBy({ status, headers }: Response): Userinfo {
  const found = [`status ${status}`, headers.get('www-authenticate') ?? ''].join(' ').trim()
  return { kind: 'refused', refusal: { code: 'userinfo_refused', found: shorten(found) } }
}
