import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { KeyRing } from '@postern/signed-context'

/** Where a secret is stored. If its row is moved or copied, it cannot be decrypted there. */
export interface SecretPlace {
  readonly tenantId: string
  readonly connectorId: string
  readonly name: string
}

export class SealError extends Error {
  override readonly name = 'SealError'
}

const nonceBytes = 12
const tagBytes = 16

/**
 * Encrypts a secret with a new data key (AES-256-GCM, NIST SP 800-38D), and the data key with the ring's current key:
 * `v1.<key id>.<data key>.<secret>`.
 */
export function sealSecret(ring: KeyRing, place: SecretPlace, value: string): string {
  const dataKey = randomBytes(32)
  const content = encrypt(dataKey, Buffer.from(value, 'utf8'), boundTo(place))
  return ['v1', ring.current.id, wrap(ring, dataKey, place), content.toString('base64url')].join('.')
}

export function openSecret(ring: KeyRing, place: SecretPlace, sealed: string): string {
  const { dataKey, content } = unwrap(ring, place, sealed)
  return decrypt(dataKey, content, boundTo(place)).toString('utf8')
}

/** Undefined if the secret uses the ring's current key already. Throws SealError. */
export function rewrapSecret(ring: KeyRing, place: SecretPlace, sealed: string): string | undefined {
  if (sealed.split('.')[1] === ring.current.id) return undefined
  const { dataKey, content } = unwrap(ring, place, sealed)
  return ['v1', ring.current.id, wrap(ring, dataKey, place), content.toString('base64url')].join('.')
}

function wrap(ring: KeyRing, dataKey: Buffer, place: SecretPlace): string {
  return encrypt(ring.current.secret, dataKey, `key ${ring.current.id} ${boundTo(place)}`).toString('base64url')
}

function unwrap(ring: KeyRing, place: SecretPlace, sealed: string): { dataKey: Buffer; content: Buffer } {
  const [version, keyId, wrapped = '', content = ''] = sealed.split('.')
  const key = [ring.current, ring.previous].find((candidate) => candidate?.id === keyId)
  if (version !== 'v1' || key === undefined) throw new SealError('the key of the secret is not in the ring')
  const dataKey = decrypt(key.secret, Buffer.from(wrapped, 'base64url'), `key ${key.id} ${boundTo(place)}`)
  return { dataKey, content: Buffer.from(content, 'base64url') }
}

function boundTo({ tenantId, connectorId, name }: SecretPlace): string {
  return `${tenantId} ${connectorId} ${name}`
}

function encrypt(key: Buffer, plain: Buffer, context: string): Buffer {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(Buffer.from(context, 'utf8'))
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function decrypt(key: Buffer, sealed: Buffer, context: string): Buffer {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(context, 'utf8'))
    decipher.setAuthTag(sealed.subarray(-tagBytes))
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()])
  } catch (cause) {
    throw new SealError('the secret cannot be decrypted', { cause })
  }
}
