import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { KeyRing } from '@postern/signed-context'

export interface Seal {
  /** Encrypts a text for one `place`, such as a Redis key. Opening it needs `bearer`, a secret of its owner. */
  close(text: string, place: string, bearer: string): string
  /** Returns undefined if the text was changed or moved, the bearer differs, or the key was retired. */
  open(sealed: string, place: string, bearer: string): string | undefined
}

const ivBytes = 12
const tagBytes = 16
const algorithm = 'aes-256-gcm'

/**
 * AES-256-GCM with a key derived from the ring and the bearer's secret (HKDF, RFC 5869). Whoever has Redis and the ring
 * still needs the cookie.
 */
export function createSeal(ring: KeyRing, purpose: string): Seal {
  const keys = ring.previous === undefined ? [ring.current] : [ring.current, ring.previous]
  const derive = (secret: Buffer, bearer: string): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, bearer, `postern console ${purpose}`, 32))
  return {
    close: (text, place, bearer) => {
      const { id, secret } = ring.current
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv(algorithm, derive(secret, bearer), iv, { authTagLength: tagBytes })
      cipher.setAAD(Buffer.from(place))
      const parts = [iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return `v1.${id}.${Buffer.concat(parts).toString('base64url')}`
    },
    open: (sealed, place, bearer) => {
      const [version, id, body = '', ...more] = sealed.split('.')
      const key = keys.find((each) => each.id === id)
      const bytes = Buffer.from(body, 'base64url')
      if (version !== 'v1' || key === undefined || more.length > 0 || bytes.length < ivBytes + tagBytes)
        return undefined
      const iv = bytes.subarray(0, ivBytes)
      const decipher = createDecipheriv(algorithm, derive(key.secret, bearer), iv, { authTagLength: tagBytes })
      decipher.setAAD(Buffer.from(place))
      decipher.setAuthTag(bytes.subarray(-tagBytes))
      try {
        return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
      } catch {
        return undefined
      }
    },
  }
}
