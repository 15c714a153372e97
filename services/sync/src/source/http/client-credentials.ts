import {
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
  allowInsecureRequests,
  clientCredentialsGrant,
  customFetch,
} from 'openid-client'
import type { OutboundHttp } from '../../outbound/outbound.ts'
import { SourceReadError } from '../source-read-error.ts'
import { requestWithRetries, statusFailure } from './request.ts'
import { isHeaderValue } from './authorize.ts'

/** A client of an authorization server (RFC 6749, section 4.4). */
interface ClientCredentials {
  readonly token_url: string
  readonly client_id: string
  readonly scope?: string | undefined
  readonly audience?: string | undefined
  readonly resource?: string | undefined
  /** RFC 6749, section 2.3.1. */
  readonly client_authentication: 'post' | 'basic'
}

/** Access tokens for one read. */
export interface TokenSource {
  /** Returns a token that is valid for at least another minute, according to the server. */
  token(): Promise<string>
  forget(): void
}

const maxTokenAnswerBytes = 65_536
const earlyMs = 60_000

export function openTokenSource(
  {
    token_url: tokenUrl,
    client_id: clientId,
    scope,
    audience,
    resource,
    client_authentication: method,
  }: ClientCredentials,
  clientSecret: string,
  http: OutboundHttp,
  signal: AbortSignal,
): TokenSource {
  const server = { issuer: new URL(tokenUrl).origin, token_endpoint: tokenUrl }
  const authentication = method === 'basic' ? ClientSecretBasic(clientSecret) : ClientSecretPost(clientSecret)
  const configuration = new Configuration(server, clientId, undefined, authentication)
  configuration[customFetch] = async (url, { method: verb, headers, body }) =>
    await toResponse(http, {
      url,
      method: verb === 'POST' ? 'POST' : 'GET',
      headers,
      body: String(body ?? ''),
      signal,
    })
  // The outbound client rejects plain http itself.
  allowInsecureRequests(configuration)
  const parameters = Object.fromEntries(
    Object.entries({ scope, audience, resource }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    ),
  )
  let held: { readonly value: string; readonly until: number } | undefined
  return {
    token: async () => {
      if (held !== undefined && Date.now() < held.until) return held.value
      const { host } = new URL(tokenUrl)
      try {
        const granted = await clientCredentialsGrant(configuration, parameters)
        if (!isHeaderValue(granted.access_token)) throw new Error('the access token is not a valid header value')
        const seconds = granted.expires_in ?? 3600
        held = { value: granted.access_token, until: Date.now() + Math.max(0, seconds * 1000 - earlyMs) }
        return held.value
      } catch (cause) {
        signal.throwIfAborted()
        throwSourceReadError(cause)
        throw new SourceReadError('token_refused', `${host} ${refusalOf(cause, method)}`, { cause })
      }
    },
    forget: () => {
      held = undefined
    },
  }
}

/** Shows only the error code of the server's response (RFC 6749, section 5.2). */
function refusalOf(error: unknown, method: ClientCredentials['client_authentication']): string {
  const reported = error instanceof ResponseBodyError ? error.error : undefined
  if (reported === 'invalid_client' || error instanceof WWWAuthenticateChallengeError) {
    const other = method === 'basic' ? 'post' : 'basic'
    return `rejects the client: check \`client_id\` and the secret, or set \`client_authentication\` to ${other} if the server accepts the secret only in that way`
  }
  if (reported === undefined) {
    return 'did not return an access token: check `token_url`'
  }
  const code = /^[a-z_]{1,40}$/.test(reported) ? ` (${reported})` : ''
  return `refuses an access token${code}: check the permissions of the client, and the scope`
}

function throwSourceReadError(error: unknown): void {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof SourceReadError) throw each
}

/** Some servers add null members, and scopes as a list (against RFC 6749, section 5.1). */
function plainToken(text: string): string {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    return text
  }
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return text
  const members = Object.entries(answer).flatMap(([name, value]: [string, unknown]) => {
    const plain = name === 'scope' && Array.isArray(value) ? value.join(' ') : value
    return plain === null || (name === 'scope' && plain === '') ? [] : [[name, plain] as const]
  })
  return JSON.stringify(Object.fromEntries(members))
}

async function toResponse(http: OutboundHttp, request: Parameters<OutboundHttp['request']>[0]): Promise<Response> {
  const answer = await requestWithRetries(http, request)
  if (answer.status === 429 || answer.status >= 500) {
    answer.discard()
    throw statusFailure(answer)
  }
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of answer.body) {
    length += part.length
    if (length > maxTokenAnswerBytes) throw new SourceReadError('answer_too_large', 'the token is larger than 64 KiB')
    parts.push(part)
  }
  const type = answer.headers['content-type']
  // Some servers answer 201 to a new token.
  const status = answer.status === 201 ? 200 : answer.status
  return new Response(plainToken(Buffer.concat(parts).toString()), {
    status,
    ...(type === undefined ? {} : { headers: { 'content-type': type } }),
  })
}
