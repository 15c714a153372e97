import { generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'

/** An OpenID Connect issuer with one key. Its tokens belong to administrators. */
export interface Issuer {
  readonly url: string
  tokenFor(tenantId: string): string
  close(): void
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

export async function startIssuer(): Promise<Issuer> {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }
  const server = createServer((request, response) => {
    const isDiscovery = request.url === '/.well-known/openid-configuration'
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(isDiscovery ? { issuer: url, jwks_uri: `${url}/jwks` } : { keys: [key] }))
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  return {
    url,
    tokenFor: (tenantId) => {
      const now = Math.floor(Date.now() / 1000)
      const claims = {
        iss: url,
        aud: 'postern',
        sub: 'ada',
        iat: now,
        exp: now + 300,
        name: 'Ada',
        postern_tenant: tenantId,
      }
      const text = `${encode({ alg: 'ES256', kid: 'one' })}.${encode({ ...claims, postern_roles: ['postern-admin'] })}`
      const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      return `${text}.${signature.toString('base64url')}`
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
