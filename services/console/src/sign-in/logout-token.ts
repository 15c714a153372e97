import { type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { z } from 'zod'
import { isKeySetFailure, signatureAlgorithms } from './signatures.ts'

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

const noticeSchema = z.object({
  sub: z.string().min(1).optional(),
  sid: z.string().min(1).optional(),
  jti: z.string().min(1),
  events: z.object({ [event]: z.looseObject({}) }),
})

/** Verifies a logout token (OIDC Back-Channel Logout §2.6). Rejects ID tokens. */
export async function verifyLogoutToken(token: string, options: LogoutTokenOptions): Promise<LogoutTokenCheck> {
  const { issuer, audience, keys, now } = options
  if (token.length > maxTokenCharacters) return { kind: 'invalid' }
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      audience,
      algorithms: signatureAlgorithms,
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(now),
      maxTokenAge: logoutTokenLifeSeconds,
      requiredClaims: ['iat', 'jti', 'events'],
    })
    const notice = readNotice(payload, issuer)
    return notice === undefined ? { kind: 'invalid' } : { kind: 'valid', notice }
  } catch (error) {
    return isKeySetFailure(error) ? { kind: 'unavailable', cause: error } : { kind: 'invalid' }
  }
}

function readNotice(payload: JWTPayload, issuer: string): LogoutNotice | undefined {
  const claims = noticeSchema.safeParse(payload)
  if (!claims.success || payload['nonce'] !== undefined) return undefined
  const { sub, sid, jti } = claims.data
  if (sub === undefined && sid === undefined) return undefined
  return { issuer, subject: sub, sid, id: jti }
}
