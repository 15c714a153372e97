import { createServer } from 'node:http'
import { findFreePort } from '@postern/local-stack/testing'
import { type CryptoKey, type JWTPayload, SignJWT, UnsecuredJWT, exportJWK, generateKeyPair } from 'jose'

/** What to do wrong at the token endpoint, and in logout tokens. */
export interface Misdeed {
  readonly claims?: JWTPayload
  readonly drop?: readonly string[]
  readonly withoutSid?: true
  /** Signed by a key that the provider does not publish. */
  readonly foreignKey?: true
  readonly unsigned?: true
  /** Signed with the client's secret: anybody who has it could. */
  readonly symmetric?: true
  readonly refusal?: { readonly status: number; readonly error: string }
  readonly withoutKeys?: true
  readonly meanwhile?: () => Promise<void>
}

/** A provider with a chosen misdeed. Without one it is correct. */
export interface HostileProvider {
  readonly issuer: string
  misdeed: Misdeed
  /** How many codes and refresh tokens were redeemed. */
  readonly redeemed: number
  /** The nonce that the ID token is for: what the authorization request held. */
  nonce: string
  logoutToken(misdeed?: Misdeed): Promise<string>
  /** Signs with a new key from now on, and publishes only that. */
  rotateKey(): Promise<void>
  stop(): Promise<void>
}

export const client = { id: 'postern-console', secret: 'a-secret-of-the-client-0123456789' }

function seconds(): number {
  return Math.floor(Date.now() / 1000)
}

async function createKey(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } }
}

export async function startHostileProvider(tenantId: string | readonly string[]): Promise<HostileProvider> {
  const foreign = await generateKeyPair('ES256')
  let own = await createKey('own')
  const port = await findFreePort()
  const issuer = `http://127.0.0.1:${port}`

  async function sign(payload: JWTPayload, { claims, drop = [], foreignKey, unsigned, symmetric }: Misdeed) {
    const said = Object.fromEntries(Object.entries({ ...payload, ...claims }).filter(([name]) => !drop.includes(name)))
    if (unsigned) return new UnsecuredJWT(said).encode()
    const key: CryptoKey | Uint8Array = symmetric
      ? new TextEncoder().encode(client.secret)
      : foreignKey
        ? foreign.privateKey
        : own.privateKey
    const header = symmetric ? { alg: 'HS256' } : { alg: 'ES256', kid: own.jwk.kid }
    return await new SignJWT(said).setProtectedHeader(header).sign(key)
  }

  async function tokens(): Promise<unknown> {
    const common = { iss: issuer, sub: 'person-1', iat: seconds(), exp: seconds() + 300 }
    const person = { name: 'Ada', postern_tenant: tenantId, postern_roles: ['postern-admin'] }
    return {
      token_type: 'Bearer',
      expires_in: 300,
      access_token: await sign({ ...common, aud: 'postern', ...person }, {}),
      id_token: await sign(
        {
          ...common,
          aud: client.id,
          nonce: provider.nonce,
          name: 'Ada',
          ...(provider.misdeed.withoutSid ? {} : { sid: `sid-${provider.nonce}` }),
        },
        provider.misdeed,
      ),
    }
  }

  const server = createServer((request, response) => {
    void (async () => {
      const [path = ''] = (request.url ?? '').split('?')
      const documents: Readonly<Record<string, () => unknown>> = {
        '/.well-known/openid-configuration': () => ({
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['ES256'],
        }),
        '/jwks': () => ({ keys: [own.jwk] }),
        '/token': tokens,
      }
      const { refusal, meanwhile, withoutKeys } = provider.misdeed
      if (path === '/token') {
        redeemed += 1
        await meanwhile?.()
      }
      if (path === '/jwks' && withoutKeys) {
        response.writeHead(503).end()
        return
      }
      if (path === '/token' && refusal !== undefined) {
        response.writeHead(refusal.status, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ error: refusal.error }))
        return
      }
      const document = await documents[path]?.()
      response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(document ?? {}))
    })()
  })
  const listening = Promise.withResolvers<void>()
  server.listen(port, '127.0.0.1', listening.resolve)
  await listening.promise

  let notices = 0
  let redeemed = 0
  const provider: HostileProvider = {
    issuer,
    misdeed: {},
    get redeemed() {
      return redeemed
    },
    nonce: '',
    logoutToken: async (misdeed = {}) => {
      notices += 1
      const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
      const payload = {
        iss: issuer,
        aud: client.id,
        iat: seconds(),
        exp: seconds() + 120,
        jti: `n${notices}`,
        events,
        sid: `sid-${provider.nonce}`,
      }
      return await sign(payload, misdeed)
    },
    rotateKey: async () => {
      own = await createKey(`${own.jwk.kid}-next`)
    },
    stop: async () => {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      server.closeAllConnections()
      await closed.promise
    },
  }
  return provider
}
