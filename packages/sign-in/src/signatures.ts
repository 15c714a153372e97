import { hash } from 'node:crypto'

/** Only asymmetric signatures, which nobody else could create. */
export const algorithms = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']

/** Whether an ID token with this `at_hash` and `alg` came with the access token (OpenID Connect Core §3.1.3.6). */
export function isHashOf(atHash: unknown, alg: string | undefined, accessToken: string): boolean {
  const digest = hash(alg === 'EdDSA' ? 'sha512' : alg === 'ES384' ? 'sha384' : 'sha256', accessToken, 'buffer')
  return atHash === digest.subarray(0, digest.length / 2).toString('base64url')
}
