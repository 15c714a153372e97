import { type KeyObject, generateKeyPairSync, randomBytes } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import { Provider } from 'oidc-provider'
import { askSignOutPage, escape, page, pageHeaders, peoplePage, signOutHeaders, signOutPage } from './pages.ts'
import type { DemoPerson } from './people.ts'

export interface TokenShape {
  readonly audience?: string
  readonly isOpaque?: boolean
  readonly accessToken?: Readonly<Record<string, unknown>>
  readonly idToken?: Readonly<Record<string, unknown>>
  /** Claims that only the userinfo endpoint has. Access tokens are then for this endpoint. */
  readonly userinfo?: Readonly<Record<string, unknown>>
}

export interface DevelopmentProviderOptions {
  readonly shape?: TokenShape
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  readonly consoleUrl: string
  readonly people: readonly DemoPerson[]
  /** Service accounts, with the claims of their tokens. */
  readonly machines?: readonly {
    readonly clientId: string
    readonly clientSecret: string
    readonly claims: Readonly<Record<string, unknown>>
  }[]
  tenantId(slug: string): Promise<string | undefined>
  /** P-256. Default: a new key. */
  readonly key?: { readonly id: string; readonly privateKey: KeyObject }
}

export const audience = 'postern'
const resource = 'urn:postern:api'
const halfDaySeconds = 43_200
const accessTokenSeconds = 300
const maxFormBytes = 4096

export function createDevelopmentProvider(options: DevelopmentProviderOptions): Server {
  const { people } = options
  const provider = new Provider(options.issuer, configuration(options))
  const serve = provider.callback()

  async function answerSignIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { uid } = await provider.interactionDetails(request, response)
    if (request.method !== 'POST') {
      response.writeHead(200, pageHeaders).end(peoplePage(people, `/sign-in/${uid}`))
      return
    }
    const chosen = new URLSearchParams(await readForm(request)).get('person')
    const person = people.find(({ id }) => id === chosen)
    const result =
      person === undefined
        ? { error: 'access_denied', error_description: 'no person was chosen' }
        : { login: { accountId: person.id } }
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false })
  }

  return createServer((request, response) => {
    if (!/^\/sign-in\/[\w-]+$/.test(request.url ?? '')) {
      void serve(request, response)
      return
    }
    answerSignIn(request, response).catch((error: unknown) => {
      const text = error instanceof Error ? error.message : 'unknown'
      response.writeHead(400, pageHeaders).end(page('This sign-in has expired', `<p>${escape(text)}</p>`))
    })
  })
}

async function readForm(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) {
    text += String(chunk)
    if (text.length > maxFormBytes) throw new Error('the form is too large')
  }
  return text
}

function configuration(options: DevelopmentProviderOptions): ConstructorParameters<typeof Provider>[1] {
  const { clientId, clientSecret, consoleUrl, people, tenantId, shape, machines = [] } = options
  const { id: keyId, privateKey } = options.key ?? {
    id: randomBytes(8).toString('hex'),
    privateKey: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
  }
  const find = (id: string): DemoPerson | undefined => people.find((person) => person.id === id)
  return {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        redirect_uris: [`${consoleUrl}/auth/callback`],
        post_logout_redirect_uris: [`${consoleUrl}/`],
        backchannel_logout_uri: `${consoleUrl}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
        id_token_signed_response_alg: 'ES256',
      },
      ...machines.map((machine) => ({
        client_id: machine.clientId,
        client_secret: machine.clientSecret,
        grant_types: ['client_credentials'],
        response_types: [],
        id_token_signed_response_alg: 'ES256' as const,
        redirect_uris: [],
      })),
    ],
    jwks: {
      keys: [{ ...privateKey.export({ format: 'jwk' }), kid: keyId, use: 'sig', alg: 'ES256' }],
    },
    cookies: { keys: [randomBytes(32).toString('hex')] },
    claims: {
      openid: ['sub', ...Object.keys({ ...shape?.idToken, ...shape?.userinfo })],
      profile: ['name'],
      email: ['email'],
    },
    // The console reads name and address only from the ID token.
    conformIdTokenClaims: shape?.userinfo !== undefined,
    findAccount: (_ctx, id) => {
      const person = find(id)
      if (person === undefined) return undefined
      const claims = { sub: id, name: person.name, email: person.email, ...shape?.idToken, ...shape?.userinfo }
      return { accountId: id, claims: () => claims }
    },
    extraTokenClaims: async (_ctx, token) => {
      if (token.kind === 'ClientCredentials') {
        return machines.find((machine) => machine.clientId === token.clientId)?.claims
      }
      const person = 'accountId' in token ? find(token.accountId) : undefined
      if (person === undefined) return undefined
      if (shape !== undefined) return { ...shape.accessToken }
      return {
        name: person.name,
        postern_tenant: await tenantId(person.tenant),
        postern_roles: person.roles.map((role) => `postern-${role}`),
        postern_grants: person.grants,
      }
    },
    // The console needs no consent.
    loadExistingGrant: async (ctx) => {
      const { client, session } = ctx.oidc
      if (client === undefined || session?.accountId === undefined) return undefined
      const before = session.grantIdFor(client.clientId)
      // A second sign-in in the same browser must not end the first session.
      const known = before === undefined ? undefined : await ctx.oidc.provider.Grant.find(before)
      if (known !== undefined) return known
      const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope('openid profile email offline_access')
      await grant.save()
      return grant
    },
    // The default rejects the loopback address.
    fetch: async (url, given) => {
      const { method = 'GET', headers = {}, body = null, redirect = 'manual', signal = null } = given ?? {}
      return await fetch(url, { method, headers, body, redirect, signal })
    },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    pkce: { required: () => true },
    interactions: { url: (_ctx, { uid }) => `/sign-in/${uid}` },
    features: {
      clientCredentials: { enabled: machines.length > 0 },
      devInteractions: { enabled: false },
      revocation: { enabled: true },
      backchannelLogout: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => (shape?.userinfo === undefined ? resource : []),
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: '',
          audience: shape?.audience ?? audience,
          accessTokenFormat: shape?.isOpaque === true ? 'opaque' : 'jwt',
          accessTokenTTL: accessTokenSeconds,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: (ctx, form) => {
          const isAsked = ctx.oidc.entities.IdTokenHint === undefined
          ctx.set(isAsked ? pageHeaders : signOutHeaders)
          ctx.body = isAsked ? askSignOutPage(form) : signOutPage(form)
        },
        postLogoutSuccessSource: (ctx) => {
          ctx.set(pageHeaders)
          ctx.body = page('You are signed out', '')
        },
      },
    },
    renderError: (ctx, { error, error_description: description }) => {
      ctx.set(pageHeaders)
      ctx.body = page('This did not work', `<p>${escape(`${error}: ${description ?? ''}`)}</p>`)
    },
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      Grant: halfDaySeconds,
      IdToken: accessTokenSeconds,
      Interaction: 600,
      RefreshToken: halfDaySeconds,
      Session: halfDaySeconds,
    },
  }
}
