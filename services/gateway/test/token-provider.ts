import { createServer } from 'node:http'
import { randomRing } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import { afterEach, beforeEach, vi } from 'vitest'
import { createTokenVerifier } from '../src/authenticate/bearer.ts'
import { readConfig } from '../src/config.ts'

export const tenantId = '0197a3c0-7c00-7000-8000-000000000001'

const services = ['KEYS', 'FINDINGS', 'UNIVERSE', 'EVIDENCE', 'SYNC'] as const
const rings = [
  ...services.map((name) => `SIGNING_${name}`),
  'ASSERTION_KEYS',
  'INTERNAL_SIGNING_KEYS',
  'CACHE_SIGNING_KEYS',
]

export const secondsNow = (): number => Math.floor(Date.now() / 1000)

/** Sets the wall clock forward; `Date` must be fake. */
export function advanceClock(seconds: number): void {
  vi.setSystemTime(Date.now() + seconds * 1000)
}

const monotonic = performance.now.bind(performance)

/** Creates the verifier of a gateway with this setting. */
function verifierFor(issuer: string, log: Record<string, unknown>[] = []) {
  const { providers } = readConfig({
    POSTERN_REDIS_URL: 'redis://127.0.0.1:6379',
    ...Object.fromEntries(services.map((name) => [`POSTERN_${name}_URL`, 'http://127.0.0.1:8181'])),
    ...Object.fromEntries(rings.map((name) => [`POSTERN_${name}`, randomRing()])),
    POSTERN_OIDC_ISSUER: issuer,
  })
  const write = (line: string): void => void log.push(JSON.parse(line))
  return createTokenVerifier(providers, createLogger({ service: 'gateway', level: 'warn', write }))
}

/** An OpenID provider that tests change, and the gateway's verifier of its tokens. Each test file calls it. */
export async function useTokenProvider() {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }
  /** What the provider returns, by path. */
  const documents = new Map<string, object>()
  const requested: string[] = []
  let mayAnswer = Promise.resolve()
  let origin = ''
  let passedMs = 0
  const server = createServer((request, response) => {
    requested.push(request.url ?? '')
    void mayAnswer.then(() => {
      const document = documents.get(request.url ?? '')
      response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(document ?? {}))
    })
  })

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
    requested.length = 0
    mayAnswer = Promise.resolve()
    vi.restoreAllMocks()
    passedMs = 0
  })

  /** Publishes a provider at the URL `name`, less its final slash. It calls itself `calledItself`. */
  function publish(name: string, calledItself = name): void {
    const folder = new URL(name).pathname.replace(/\/$/, '')
    documents.set(`${folder}/.well-known/openid-configuration`, { issuer: calledItself, jwks_uri: `${origin}/keys` })
    documents.set('/keys', { keys: [jwk] })
  }

  async function tokenOf(
    issuer: string,
    changes: Record<string, unknown> = {},
    header: object = {},
    key = privateKey,
  ): Promise<string> {
    const claims = { sub: 'ada', exp: secondsNow() + 300, postern_tenant: tenantId, postern_roles: ['postern-admin'] }
    return await new SignJWT({ ...claims, ...changes })
      .setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
      .setIssuer(issuer)
      .setAudience('postern')
      .sign(key)
  }

  return {
    jwk,
    documents,
    requested,
    origin: () => origin,
    publish,
    tokenOf,
    verifierFor,
    /** Delays all responses until the returned function is called. */
    holdAnswers: (): (() => void) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      mayAnswer = promise
      return resolve
    },
    /** Lets time pass for caches, which use the monotonic clock. */
    passTime: (milliseconds: number): void => {
      passedMs += milliseconds
      vi.spyOn(performance, 'now').mockImplementation(() => monotonic() + passedMs)
    },
  }
}
