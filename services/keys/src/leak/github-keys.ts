import { type KeyObject, createPublicKey, verify } from 'node:crypto'
import { z } from 'zod'

export type GithubKeys = ReadonlyMap<string, KeyObject>

const documentSchema = z.object({
  public_keys: z.array(z.object({ key_identifier: z.string().min(1).max(200), key: z.string() })).min(1),
})

/** A setting: the document of https://api.github.com/meta/public_keys/secret_scanning. */
export const githubKeysSchema = z.string().transform((text, context): GithubKeys => {
  try {
    const { public_keys: keys } = documentSchema.parse(JSON.parse(text))
    const parsed = keys.map(({ key_identifier: id, key }) => [id, createPublicKey(key)] as const)
    if (parsed.every(([, key]) => key.asymmetricKeyDetails?.namedCurve === 'prime256v1')) return new Map(parsed)
  } catch {}
  context.addIssue({
    code: 'custom',
    message:
      'must be the JSON that GitHub publishes: `public_keys` with `key_identifier` and `key`, on the curve P-256',
  })
  return z.NEVER
})

/** Verifies an ECDSA signature with SHA-256, in DER and base64, over the body as it was received. */
export function isSignedBy(key: KeyObject, body: Buffer, signature: string): boolean {
  return verify('sha256', body, { key, dsaEncoding: 'der' }, Buffer.from(signature, 'base64'))
}
