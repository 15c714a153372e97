import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { KeyRing } from '@postern/signed-context'

/** Encrypts small texts so that nobody can read, alter or swap them. */
export interface Seal {
  /** `place` is where the text will lie; it opens there alone. `bearer` is a secret that whoever opens it must show. */
  close(text: string, place: string, bearer: string): string
  /** Undefined when it was altered, lies elsewhere, the bearer is another, or its key has been retired. */
  open(sealed: string, place: string, bearer: string): string | undefined
}

const ivBytes = 12
const tagBytes = 16
const algorithm = 'aes-256-gcm'

/**
 * AES-256-GCM under a key that is derived (HKDF, RFC 5869) from a secret of the ring and from the bearer's: whoever has
 * the store alone, the ring alone, or both without the browser's cookie, reads nothing.
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
