import { hash } from 'node:crypto'

declare const keyHashBrand: unique symbol

/** SHA-256 of a key's value, 64 lower-case hexadecimal characters. The only form in which a key is stored or looked up. */
export type KeyHash = string & { readonly [keyHashBrand]: true }

const keyHashPattern = /^[0-9a-f]{64}$/

/**
 * Gives the hash under which a key is stored and looked up.
 *
 * A plain SHA-256 suffices: the value carries 256 random bits, so there is nothing to guess that a slow hash or a salt
 * would protect, and the hash is computed on every request.
 *
 * HOT PATH: the one-shot `crypto.hash` costs about a third of `createHash`.
 */
export function hashKey(value: string): KeyHash {
  // The one place where the brand is given: what SHA-256 in hexadecimal returns has this shape by construction.
  return hash('sha256', value, 'hex') as KeyHash
}

/** Tells whether a text read from outside (a database row, a cache record) has the shape of a key hash. */
export function isKeyHash(text: string): text is KeyHash {
  return keyHashPattern.test(text)
}
