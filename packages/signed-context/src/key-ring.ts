export interface SigningKey {
  /** 1 to 32 of `A-Z a-z 0-9 _ -`. */
  readonly id: string
  /** At least 32 bytes. */
  readonly secret: Buffer
}

/** `current` signs; `previous` is also accepted during a rotation. */
export interface KeyRing {
  readonly current: SigningKey
  readonly previous?: SigningKey
}

/** A shorter secret weakens the HMAC (RFC 2104 §3). */
const minSecretBytes = 32
const maxSecretBytes = 64

/** PostgreSQL requires the same. */
export const keyIdPattern: RegExp = /^[A-Za-z0-9_-]{1,32}$/

/**
 * Parses `id:secret` or `id:secret,id:secret`, current key first, secrets in URL-safe base64 without padding. Throws a
 * TypeError without the text.
 */
export function parseKeyRing(text: string): KeyRing {
  const [first, second, ...more] = text.split(',')
  if (more.length > 0) throw new TypeError('a key ring holds at most two keys: the current and the previous one')
  const current = parseKey(first ?? '', 'current')
  if (second === undefined) return Object.freeze({ current })
  const previous = parseKey(second, 'previous')
  if (previous.id === current.id) throw new TypeError('the two keys of a key ring must have different ids')
  if (previous.secret.equals(current.secret)) throw new TypeError('the two keys of a key ring must not share a secret')
  return Object.freeze({ current, previous })
}

export function findKey(ring: KeyRing, id: string): SigningKey | undefined {
  if (ring.current.id === id) return ring.current
  return ring.previous?.id === id ? ring.previous : undefined
}

function parseKey(text: string, place: string): SigningKey {
  const [id, encoded, ...more] = text.trim().split(':')
  if (id === undefined || encoded === undefined || more.length > 0)
    throw new TypeError(`the ${place} key of a key ring must have the form id:secret`)
  if (!keyIdPattern.test(id)) throw new TypeError(`the id of the ${place} key must be 1 to 32 of A-Z a-z 0-9 _ -`)
  const secret = Buffer.from(encoded, 'base64url')
  // Node's decoder ignores invalid characters.
  if (secret.toString('base64url') !== encoded)
    throw new TypeError(`the secret of the ${place} key must be URL-safe base64 without padding`)
  if (secret.length < minSecretBytes || secret.length > maxSecretBytes)
    throw new TypeError(`the secret of the ${place} key must have ${minSecretBytes} to ${maxSecretBytes} bytes`)
  return Object.freeze({ id, secret })
}

const keyNamePattern = /^[a-z0-9-]{1,32}$/

/** Throws unless the name can precede the colon of a `keyid`. */
export function assertKeyName(name: string): void {
  if (!keyNamePattern.test(name)) throw new TypeError('a key name must be 1 to 32 of a-z 0-9 -')
}
