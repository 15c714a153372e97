import { hash } from 'node:crypto'

declare const keyHashBrand: unique symbol

/** SHA-256 of a key's value: 64 lower-case hexadecimal characters. Keys are stored and looked up only by this hash. */
export type KeyHash = string & { readonly [keyHashBrand]: true }

const keyHashPattern = /^[0-9a-f]{64}$/

/** Returns the hash of a key. Plain SHA-256 is enough: nobody can guess 256 random bits, with or without a salt. */
export function hashKey(value: string): KeyHash {
  // The only place that sets the brand: SHA-256 in hexadecimal always has this shape.
  return hash('sha256', value, 'hex') as KeyHash
}

/** Whether a text from outside (a database row or a cache record) has the shape of a key hash. */
export function isKeyHash(text: string): text is KeyHash {
  return keyHashPattern.test(text)
}
