import { errors } from 'jose'

/** Only asymmetric signatures, which nobody else could create. */
export const signatureAlgorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

/** Whether the provider's keys cannot be read at the moment, which says nothing about the token. */
export function isOfTheKeys(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return true
  return error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid || error.code === 'ERR_JOSE_GENERIC'
}
