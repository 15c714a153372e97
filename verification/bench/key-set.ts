import { type KeyHash, hashKey, keyChecksum } from '@postern/api-key'

/** Keys derived from their number need no memory. */
export interface KeySet {
  readonly prefix: string
  readonly count: number
  readonly first: string
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43
const numberLength = 6

/** `seed` is a key from `generateKey`. */
export function keySet(seed: string, count: number): KeySet {
  const prefix = seed.slice(0, 'postern_'.length + secretLength - numberLength)
  return { prefix, count, first: keyOf(prefix, 0) }
}

export function keyOf(prefix: string, number: number): string {
  let rest = number
  let text = ''
  for (let place = 0; place < numberLength; place += 1) {
    text = digits.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  const payload = prefix + text
  return payload + keyChecksum(payload)
}

export function hashOf({ prefix }: KeySet, number: number): KeyHash {
  return hashKey(keyOf(prefix, number))
}
