import {
  type SignInProvider,
  type SignInRefusal,
  createUserinfoReader,
  inspectToken,
  openKeySet,
  refuseTenants,
  shorten,
} from '@postern/sign-in'
import * as openid from 'openid-client'
import { z } from 'zod'

/** Errors of RFC 6749 §5.2 that concern the client's settings. */
const clientErrors: ReadonlySet<string> = new Set(['invalid_client', 'unauthorized_client'])

const claimFault = z.object({
  claim: z.string(),
  expected: z.unknown().optional(),
  claims: z.record(z.string(), z.unknown()).optional(),
  body: z.record(z.string(), z.unknown()).optional(),
})

/** Explains why a response of the provider was refused, without tokens and codes. */
export function explainFailure(error: unknown, redirectUri: string): SignInRefusal | undefined {
  if (error instanceof openid.AuthorizationResponseError) return toProviderRefusal('provider_error', error)
  if (error instanceof openid.ResponseBodyError) {
    if (clientErrors.has(error.error)) return toProviderRefusal('client_rejected', error)
    if (error.error !== 'invalid_grant') return toProviderRefusal('provider_error', error)
    return { ...toProviderRefusal('code_rejected', error), wanted: `redirect address ${redirectUri}` }
  }
  // RFC 6749 §5.2: 401 with a challenge concerns the client.
  if (error instanceof openid.WWWAuthenticateChallengeError) {
    const [challenge] = error.cause
    const { error: name, error_description: description } = challenge?.parameters ?? {}
    return { code: 'client_rejected', found: shorten([name ?? `status ${error.status}`, description].join(' ').trim()) }
  }
  const fault = findFault(error, claimFault)
  if (fault === undefined) return undefined
  const { claim, expected, claims = fault.body } = fault
  if (claim === 'nonce') return { code: 'id_token_invalid', read: ['/nonce'] }
  return {
    code: 'id_token_invalid',
    read: [`/${claim}`],
    found: shorten(claims?.[claim]),
    ...(expected === undefined ? {} : { wanted: shorten(expected) }),
  }
}

function toProviderRefusal(
  code: 'provider_error' | 'client_rejected' | 'code_rejected',
  { error, error_description: description }: openid.AuthorizationResponseError | openid.ResponseBodyError,
): SignInRefusal {
  return { code, found: shorten(description === undefined ? error : `${error}: ${description}`) }
}

const issuerFault = z.object({ attribute: z.literal('issuer'), body: z.looseObject({ issuer: z.unknown() }) })

/** Explains a discovery document that names another issuer. */
export function explainDiscovery(error: unknown, issuer: string): SignInRefusal | undefined {
  const fault = findFault(error, issuerFault)
  if (fault === undefined) return undefined
  return { code: 'other_issuer', found: shorten(fault.body.issuer), wanted: shorten(issuer) }
}

/** openid-client keeps what it compared in the cause of its error. */
function findFault<T>(error: unknown, schema: z.ZodType<T>): T | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const fault = schema.safeParse(cause.cause)
    if (fault.success) return fault.data
  }
  return undefined
}

/**
 * Explains why the gateway refused a token with the problem code `refusedAs`, or without one, why the token gives no
 * roles. Reads the token with the gateway's settings. Rejects if userinfo is needed and cannot be read.
 */
export async function explainToken(
  token: string,
  provider: SignInProvider,
  { now, refusedAs }: { readonly now: number; readonly refusedAs: string | undefined },
): Promise<SignInRefusal> {
  const sources = { keysOf: openKeySet, readUserinfo: createUserinfoReader() }
  const check = await inspectToken(token, [provider], now, sources)
  if (check.kind === 'refused') return check.refusal
  const { withoutRoles, inDirectory } = check.person
  if (refusedAs === 'person_inactive' || refusedAs === 'person_unknown') {
    return {
      code: refusedAs,
      ...(inDirectory === undefined ? {} : { read: [inDirectory.match], found: shorten(inDirectory.name) }),
    }
  }
  // The gateway does not refuse tokens without roles.
  if (withoutRoles !== undefined && refusedAs === undefined) return withoutRoles
  return refuseTenants(check.person)
}
