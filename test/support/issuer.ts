import { createServer } from 'node:http'
import { type CryptoKey, SignJWT, UnsecuredJWT, exportJWK, generateKeyPair } from 'jose'

export interface TokenClaims {
  readonly tenantId: string
  readonly roles: readonly string[]
  readonly audience?: string
  readonly issuer?: string
  readonly expiresInSeconds?: number
}

/** An OpenID Connect issuer: discovery, published keys, and tokens for people of any tenant. */
export interface RunningIssuer {
  readonly url: string
  issue(claims: TokenClaims): Promise<string>
  issueUnsigned(claims: TokenClaims): Promise<string>
  stop(): Promise<void>
}

/** Starts an issuer on a free port, with a key pair of its own. */
export async function startIssuer(): Promise<RunningIssuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'issuer-1', alg: 'ES256', use: 'sig' }
  const server = createServer((request, response) => {
    const document =
      request.url === '/.well-known/openid-configuration'
        ? { issuer: url, jwks_uri: `${url}/jwks` }
        : request.url === '/jwks'
          ? { keys: [jwk] }
          : undefined
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(document ?? {}))
  })
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the issuer does not listen')
  const url = `http://127.0.0.1:${address.port}`
  return {
    url,
    issue: async (claims) => await sign(privateKey, url, claims),
    issueUnsigned: async (claims) => build(new UnsecuredJWT(payload(claims)), url, claims).encode(),
    stop: async () => {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      server.closeAllConnections()
      await closed.promise
    },
  }
}

function payload({ tenantId, roles }: TokenClaims): Record<string, unknown> {
  return { postern_tenant: tenantId, postern_roles: roles, name: 'Ada Auditor' }
}

interface Builder<T> {
  setIssuer(issuer: string): T
  setAudience(audience: string): T
  setSubject(subject: string): T
  setIssuedAt(): T
  setExpirationTime(at: number): T
}

function build<T extends Builder<T>>(token: T, url: string, claims: TokenClaims): T {
  return token
    .setIssuer(claims.issuer ?? url)
    .setAudience(claims.audience ?? 'postern')
    .setSubject('person-1')
    .setIssuedAt()
    .setExpirationTime(Math.floor(Date.now() / 1000) + (claims.expiresInSeconds ?? 300))
}

async function sign(key: CryptoKey, url: string, claims: TokenClaims): Promise<string> {
  return await build(new SignJWT(payload(claims)), url, claims)
    .setProtectedHeader({ alg: 'ES256', kid: 'issuer-1' })
    .sign(key)
}
