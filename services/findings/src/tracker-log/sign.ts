import { type KeyObject, createPublicKey } from 'node:crypto'
import { type Checkpoint, checkpointSchema, checkpointType, verifyCheckpoint } from '@postern/log-chain'
import type { SigningKeys } from '@postern/service-kit'
import { CompactSign, type JWK, base64url, calculateJwkThumbprint, decodeProtectedHeader, exportJWK } from 'jose'
import type { ReportBadEnd } from './report-bad-end.ts'

export interface CheckpointSigner {
  /** RFC 7515, EdDSA. */
  sign(checkpoint: Checkpoint): Promise<string>
  /** Returns undefined if no published key signed it. */
  verify(jws: string): Promise<Checkpoint | undefined>
  /** Reads a checkpoint of an unpublished key, without verifying it. Returns undefined for any other text. */
  parseUnverified(jws: string): Checkpoint | undefined
  readonly reportBadEnd: ReportBadEnd
  /** RFC 7517, the signing key first. */
  readonly publicKeys: readonly JWK[]
}

/** The first key signs. Key ids are thumbprints (RFC 7638). */
export async function openCheckpointSigner(
  [key, ...others]: SigningKeys,
  reportBadEnd: ReportBadEnd = () => undefined,
): Promise<CheckpointSigner> {
  const current = await publicJwk(key)
  const publicKeys = [current, ...(await Promise.all(others.map(publicJwk)))]
  return {
    reportBadEnd,
    publicKeys,
    verify: async (jws) => await verifyCheckpoint(jws, { keys: publicKeys }),
    parseUnverified: (jws) => parseUnverified(jws, publicKeys),
    sign: async (checkpoint) =>
      await new CompactSign(new TextEncoder().encode(JSON.stringify(checkpoint)))
        .setProtectedHeader({ alg: 'EdDSA', kid: current.kid, typ: checkpointType })
        .sign(key),
  }
}

async function publicJwk(key: KeyObject): Promise<JWK & { readonly kid: string }> {
  const jwk = await exportJWK(createPublicKey(key))
  return { ...jwk, kid: await calculateJwkThumbprint(jwk, 'sha256'), alg: 'EdDSA', use: 'sig' }
}

function parseUnverified(jws: string, known: readonly JWK[]): Checkpoint | undefined {
  try {
    const { kid, typ } = decodeProtectedHeader(jws)
    if (typ !== checkpointType || kid === undefined || known.some((key) => key.kid === kid)) return undefined
    const payload = new TextDecoder().decode(base64url.decode(jws.split('.')[1] ?? ''))
    return checkpointSchema.safeParse(JSON.parse(payload)).data
  } catch {
    return undefined
  }
}
