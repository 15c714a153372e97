import { type JWTPayload, type JWTVerifyGetKey, errors, jwtVerify } from 'jose'

export interface LogoutNotice {
  readonly issuer: string
  readonly subject: string | undefined
  readonly sid: string | undefined
  /** Each notice is processed once. */
  readonly id: string
}

export type LogoutTokenCheck =
  | { readonly kind: 'valid'; readonly notice: LogoutNotice }
  | { readonly kind: 'invalid' }
  | { readonly kind: 'unavailable'; readonly cause: unknown }

export interface LogoutTokenOptions {
  readonly issuer: string
  readonly audience: string
  readonly keys: JWTVerifyGetKey
  readonly now: number
}

/** Notices are accepted, and their ids remembered, for this long. */
export const logoutTokenLifeSeconds = 300
const clockToleranceSeconds = 30
const maxTokenCharacters = 8192
const event = 'http://schemas.openid.net/event/backchannel-logout'
const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

/** Verifies a logout token (§2.6). Rejects ID tokens. */
export async function verifyLogoutToken(token: string, options: LogoutTokenOptions): Promise<LogoutTokenCheck> {
  const { issuer, audience, keys, now } = options
  if (token.length > maxTokenCharacters) return { kind: 'invalid' }
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience,
      algorithms,
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(now),
      maxTokenAge: logoutTokenLifeSeconds,
      requiredClaims: ['iat', 'jti', 'events'],
    })
    const notice = readNotice(payload, issuer)
    return notice === undefined ? { kind: 'invalid' } : { kind: 'valid', notice }
  } catch (error) {
    const isOfTheKeys = error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid
    if (error instanceof errors.JOSEError && !isOfTheKeys && error.code !== 'ERR_JOSE_GENERIC') {
      return { kind: 'invalid' }
    }
    return { kind: 'unavailable', cause: error }
  }
}

function readNotice(payload: JWTPayload, issuer: string): LogoutNotice | undefined {
  const { sub, jti, events, nonce, sid } = payload
  const isLogout = typeof events === 'object' && events !== null && Object.hasOwn(events, event)
  if (!isLogout || nonce !== undefined || jti === undefined) return undefined
  const sidText = typeof sid === 'string' ? sid : undefined
  if (sub === undefined && sidText === undefined) return undefined
  return { issuer, subject: sub, sid: sidText, id: jti }
}
