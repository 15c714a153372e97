import { hash } from 'node:crypto'

declare const keyHashBrand: unique symbol

/** 64 lower-case hexadecimal characters. Keys are stored and looked up only by this hash. */
export type KeyHash = string & { readonly [keyHashBrand]: true }

const keyHashPattern = /^[0-9a-f]{64}$/

/** Plain SHA-256 is enough for 256 random bits. */
export function hashKey(value: string): KeyHash {
  return hash('sha256', value, 'hex') as KeyHash
}

export function isKeyHash(text: string): text is KeyHash {
  return keyHashPattern.test(text)
}
