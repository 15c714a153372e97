import { type CryptoKey, SignJWT, UnsecuredJWT } from 'jose'

export interface TokenClaims {
  readonly tenantId: string
  readonly roles: readonly string[]
  readonly audience?: string
  readonly issuer?: string
  readonly expiresInSeconds?: number
  /** Other claims, or other values. */
  readonly more?: Readonly<Record<string, unknown>>
}

/** Issues tokens for people of any tenant. */
export interface TokenSource {
  readonly url: string
  issue(claims: TokenClaims): Promise<string>
  issueUnsigned(claims: TokenClaims): Promise<string>
}

/** Tokens of the issuer at `url`, whose published key with this id belongs to `key` (ES256). */
export function createTokenSource(url: string, key: CryptoKey, keyId: string): TokenSource {
  return {
    url,
    issue: async (claims) =>
      await build(new SignJWT(payload(claims)), url, claims)
        .setProtectedHeader({ alg: 'ES256', kid: keyId })
        .sign(key),
    issueUnsigned: async (claims) => build(new UnsecuredJWT(payload(claims)), url, claims).encode(),
  }
}

function payload({ tenantId, roles, more }: TokenClaims): Record<string, unknown> {
  const postern_roles = roles.map((role) => `postern-${role}`)
  return { postern_tenant: tenantId, postern_roles, name: 'Ada Auditor', ...more }
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
