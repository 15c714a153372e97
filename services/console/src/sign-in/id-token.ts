import { type SignInRefusal, shorten } from '@postern/sign-in'
import { type CompactVerifyGetKey, compactVerify, decodeProtectedHeader, errors } from 'jose'
import { isKeySetFailure, signatureAlgorithms } from './signatures.ts'

export type IdTokenCheck =
  | { readonly kind: 'valid' }
  | { readonly kind: 'refused'; readonly refusal: SignInRefusal; readonly cause: unknown }
  | { readonly kind: 'unavailable'; readonly cause: unknown }

/** Verifies the signature of an ID token. For an unknown key id, reads the provider's keys again. */
export async function verifyIdToken(token: string, keys: CompactVerifyGetKey): Promise<IdTokenCheck> {
  try {
    await compactVerify(token, keys, { algorithms: signatureAlgorithms })
    return { kind: 'valid' }
  } catch (cause) {
    const refusal = isKeySetFailure(cause) ? undefined : explain(cause, token)
    return refusal === undefined ? { kind: 'unavailable', cause } : { kind: 'refused', refusal, cause }
  }
}

function explain(error: unknown, token: string): SignInRefusal | undefined {
  if (!(error instanceof errors.JOSEError)) return undefined
  if (error instanceof errors.JWSInvalid) return { code: 'not_a_jwt' }
  const { alg, kid } = decodeProtectedHeader(token)
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return { code: 'algorithm_not_accepted', found: shorten(alg), wanted: signatureAlgorithms.join(', ') }
  }
  const isForged = error instanceof errors.JWSSignatureVerificationFailed
  return { code: isForged ? 'signature_invalid' : 'unknown_key', found: `kid ${shorten(kid)}` }
}
