import { errors } from 'jose'

/** Asymmetric only, so that nobody but the provider can sign. */
export const signatureAlgorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

/** Whether verification failed because the provider's keys could not be read. The token may still be valid. */
export function isKeySetFailure(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return true
  return error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid || error.code === 'ERR_JOSE_GENERIC'
}
