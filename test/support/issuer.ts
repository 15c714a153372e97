import { createServer } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import { type TokenSource, createTokenSource } from './tokens.ts'

/** An OpenID Connect issuer with discovery, published keys, and tokens for any tenant. */
export interface RunningIssuer extends TokenSource {
  stop(): Promise<void>
}

/** Starts an issuer on a free port with its own key pair. */
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
    ...createTokenSource(url, privateKey, 'issuer-1'),
    stop: async () => {
      const closed = Promise.withResolvers<void>()
      server.close(() => closed.resolve())
      server.closeAllConnections()
      await closed.promise
    },
  }
}
