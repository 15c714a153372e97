import { createServer } from 'node:http'
import { randomRing } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readConfig } from '../config.ts'
import { createTokenVerifier } from './bearer.ts'

const tenantId = '0197a3c0-7c00-7000-8000-000000000001'
const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }

/** By path: what the provider answers. */
const documents = new Map<string, object>()
const server = createServer((request, response) => {
  const document = documents.get(request.url ?? '')
  response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(document ?? {}))
})
let origin: string

beforeEach(async () => {
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  origin = `http://127.0.0.1:${address.port}`
})
afterEach(async () => {
  const closed = Promise.withResolvers<void>()
  server.close(() => closed.resolve())
  server.closeAllConnections()
  await closed.promise
  documents.clear()
})

/** A provider that is found where `name` says, less a slash at its end, and calls itself `calledItself`. */
function publish(name: string, calledItself = name): void {
  const folder = new URL(name).pathname.replace(/\/$/, '')
  documents.set(`${folder}/.well-known/openid-configuration`, { issuer: calledItself, jwks_uri: `${origin}/keys` })
  documents.set('/keys', { keys: [jwk] })
}

async function tokenOf(issuer: string): Promise<string> {
  return await new SignJWT({ postern_tenant: tenantId, postern_roles: ['admin'] })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .setIssuer(issuer)
    .setAudience('postern')
    .setSubject('ada')
    .setExpirationTime('5m')
    .sign(privateKey)
}

const services = ['KEYS', 'FINDINGS', 'UNIVERSE', 'EVIDENCE', 'SYNC'] as const
const rings = [...services.map((name) => `SIGNING_${name}`), 'ASSERTION_KEYS', 'INTERNAL', 'CACHE_MAC']

/** What a gateway with this setting takes for a token of the provider. */
function verifierFor(issuer: string) {
  const { oidc } = readConfig({
    POSTERN_REDIS_URL: 'redis://127.0.0.1:6379',
    ...Object.fromEntries(services.map((name) => [`POSTERN_${name}_URL`, 'http://127.0.0.1:8181'])),
    ...Object.fromEntries(rings.map((name) => [`POSTERN_${name}`, randomRing()])),
    POSTERN_OIDC_ISSUER: issuer,
  })
  if (oidc === undefined) throw new Error('the setting was not read')
  return createTokenVerifier(oidc, createLogger({ service: 'gateway', level: 'silent' }))
}

describe('a provider whose name ends in a slash', () => {
  test.each(['/', '/realms/audit/', '', '/realms/audit'])(
    'or not is taken by its name to the letter: …%s',
    async (path) => {
      const [name, other] = [origin + path, path.endsWith('/') ? origin + path.slice(0, -1) : `${origin}${path}/`]
      publish(name)
      const { verify } = verifierFor(name)
      expect(await verify(await tokenOf(other))).toMatchObject({ kind: 'invalid' })
      expect(await verify(await tokenOf(name))).toMatchObject({ kind: 'valid', token: { subject: 'ada', tenantId } })
    },
  )

  test('lends its keys to no name that differs by that slash', async () => {
    publish(origin, `${origin}/`)
    expect(await verifierFor(origin).verify(await tokenOf(origin))).toEqual({ kind: 'unavailable' })
  })
})
