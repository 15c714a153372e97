import { type KeyObject, createPublicKey } from 'node:crypto'
import { type Checkpoint, checkpointSchema, checkpointType, verifyCheckpoint } from '@postern/log-chain'
import type { SigningKeys } from '@postern/service-kit'
import { CompactSign, type JWK, base64url, calculateJwkThumbprint, decodeProtectedHeader, exportJWK } from 'jose'
import type { EndWatch } from './end-watch.ts'

/** Signs ends of logs, and tells who can check the signature. */
export interface CheckpointSigner {
  /** A compact JWS (RFC 7515, EdDSA) whose payload is the checkpoint as JSON. */
  sign(checkpoint: Checkpoint): Promise<string>
  /** What a checkpoint says that one of the public keys has signed; undefined where none has. */
  check(jws: string): Promise<Checkpoint | undefined>
  /** What a text in the form of a checkpoint says that names none of the public keys. Nobody vouches for it. Undefined: it is none. */
  readUnknown(jws: string): Checkpoint | undefined
  /** Told of each end that does not hold. */
  readonly watch: EndWatch
  /** Public halves of all keys whose checkpoints can still be checked (RFC 7517), the signing one first. */
  readonly publicKeys: readonly JWK[]
}

/** Opens the signer: the first key signs. A key's id is its RFC 7638 thumbprint, so that it is the same in every process. */
export async function openCheckpointSigner(
  [key, ...others]: SigningKeys,
  watch: EndWatch = () => undefined,
): Promise<CheckpointSigner> {
  const current = await publicJwk(key)
  const publicKeys = [current, ...(await Promise.all(others.map(publicJwk)))]
  return {
    watch,
    publicKeys,
    check: async (jws) => await verifyCheckpoint(jws, { keys: publicKeys }),
    readUnknown: (jws) => readUnknown(jws, publicKeys),
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

function readUnknown(jws: string, known: readonly JWK[]): Checkpoint | undefined {
  try {
    const { kid, typ } = decodeProtectedHeader(jws)
    if (typ !== checkpointType || kid === undefined || known.some((key) => key.kid === kid)) return undefined
    const payload = new TextDecoder().decode(base64url.decode(jws.split('.')[1] ?? ''))
    return checkpointSchema.safeParse(JSON.parse(payload)).data
  } catch {
    // Whatever it is: no checkpoint.
    return undefined
  }
}
