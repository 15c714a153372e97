import { once } from 'node:events'
import { createServer } from 'node:http'
import type { SignInProvider } from '@postern/sign-in'
import * as openid from 'openid-client'

export interface ObtainOptions {
  readonly secret: string | undefined
  /** The port of the callback; undefined: the device flow. */
  readonly port: number | undefined
  readonly note: (line: string) => void
  readonly timeoutMs: number
}

/** Signs a person in and returns the token that the provider's settings read. */
export async function obtainToken(provider: SignInProvider, options: ObtainOptions): Promise<string> {
  const { secret } = options
  const client = await openid.discovery(
    new URL(provider.issuer),
    provider.clientId,
    undefined,
    secret === undefined ? openid.None() : openid.ClientSecretPost(secret),
    { execute: new URL(provider.issuer).protocol === 'http:' ? [openid.allowInsecureRequests] : [] },
  )
  const parameters = {
    scope: provider.scope,
    ...(provider.resource === undefined ? {} : { resource: provider.resource }),
    ...Object.fromEntries(provider.parameters),
  }
  const tokens =
    options.port === undefined
      ? await byDevice(client, parameters, options)
      : await byCallback(client, parameters, options.port, options)
  const { access_token: accessToken, id_token: idToken } = tokens
  if (provider.read === 'access_token') return accessToken
  if (idToken === undefined) throw new Error('the provider sent no ID token')
  return provider.read === 'userinfo' ? `${idToken}~${accessToken}` : idToken
}

type Parameters = Readonly<Record<string, string>>

async function byDevice(client: openid.Configuration, parameters: Parameters, { note, timeoutMs }: ObtainOptions) {
  const started = await openid.initiateDeviceAuthorization(client, { ...parameters })
  note(`open ${started.verification_uri} and enter ${started.user_code}`)
  const signal = AbortSignal.timeout(timeoutMs)
  return await openid.pollDeviceAuthorizationGrant(client, started, undefined, { signal })
}

async function byCallback(
  client: openid.Configuration,
  parameters: Parameters,
  port: number,
  { note, timeoutMs }: ObtainOptions,
) {
  const callback = `http://127.0.0.1:${port}/callback`
  const [codeVerifier, state, nonce] = [openid.randomPKCECodeVerifier(), openid.randomState(), openid.randomNonce()]
  const url = openid.buildAuthorizationUrl(client, {
    ...parameters,
    redirect_uri: callback,
    state,
    nonce,
    code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
  })
  const arrived = Promise.withResolvers<URL>()
  const server = createServer((request, response) => {
    const given = new URL(request.url ?? '/', callback)
    const isOurs = given.pathname === '/callback' && given.searchParams.get('state') === state
    response.writeHead(isOurs ? 200 : 404, { 'content-type': 'text/plain', connection: 'close' })
    response.end(isOurs ? 'You can close this page.' : 'There is no such page.')
    if (isOurs) arrived.resolve(given)
  })
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    note(`the client must allow the redirect address ${callback}`)
    note(`open ${url.href}`)
    const timeout = AbortSignal.timeout(timeoutMs)
    timeout.addEventListener('abort', () =>
      arrived.reject(new Error(`nobody signed in within ${timeoutMs / 60_000} minutes`)),
    )
    return await openid.authorizationCodeGrant(client, await arrived.promise, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: codeVerifier,
    })
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** The provider's own error, or the message of the library and its causes. */
export function describeFailure(error: unknown): string {
  if (error instanceof openid.AuthorizationResponseError || error instanceof openid.ResponseBodyError) {
    return [error.error, error.error_description].filter((text) => text !== undefined).join(': ')
  }
  const texts: string[] = []
  for (let cause = error; cause instanceof Error; cause = cause.cause) texts.push(cause.message)
  return texts.join(': ')
}
