import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { crc32 } from 'node:zlib'

import { type KeyHash, hashKey } from './hash.ts'
import { lastFourOf, maskKey } from './mask.ts'

/** What every key begins with, so that secret scanners find a leaked one by a single pattern. */
export const keyPrefix = 'postern_'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretBytes = 32
/** 62^43 is the first power of 62 above 2^256. */
const secretLength = 43
/** 62^6 is the first power of 62 above 2^32. */
const checksumLength = 6
const checksumAt = keyPrefix.length + secretLength

/** Characters in a key's value; all are ASCII, so also its bytes. */
export const keyLength: number = checksumAt + checksumLength

// One character class repeated a fixed number of times between anchors: linear, and `$` without the m flag does not
// tolerate a line feed at the end.
const keyPattern = /^postern_[0-9A-Za-z]{49}$/

/** A text in the form of a key with the right checksum. That such a key was ever made is for the keys service to say. */
export interface ParsedKey {
  /** The secret itself. Not enumerable: printing, inspecting or serialising the object shows the mask. */
  readonly value: string
  /** SHA-256 of the value, computed when first read. */
  readonly hash: KeyHash
}

/** A new key: `value` is shown to its owner once, `hash` and `lastFour` are stored. */
export interface GeneratedKey {
  readonly value: string
  readonly hash: KeyHash
  readonly lastFour: string
}

/** Makes a key of 256 bits from the operating system's random source. */
export function generateKey(): GeneratedKey {
  const payload = keyPrefix + base62(BigInt(`0x${randomBytes(secretBytes).toString('hex')}`), secretLength)
  const value = payload + keyChecksum(payload)
  return { value, hash: hashKey(value), lastFour: lastFourOf(value) }
}

/**
 * Reads a key from a text of any origin and length, or gives undefined when its form or checksum is wrong. No I/O.
 *
 * The checksum (CRC-32, which finds every change within 32 neighbouring bits) spares a look-up for every mistyped or cut
 * key. It proves nothing: anyone can compute it. For that reason it is compared as it comes, in no constant time: both
 * sides follow from the text that the caller has sent.
 *
 * HOT PATH: called for every request with an API key.
 */
export function parseKey(text: string): ParsedKey | undefined {
  // The length first: a hostile text is refused before anything walks over it.
  if (text.length !== keyLength || !keyPattern.test(text)) return undefined
  if (text.slice(checksumAt) !== keyChecksum(text.slice(0, checksumAt))) return undefined
  return new CheckedKey(text)
}

/** Gives the six base62 characters that follow a payload (prefix and secret): its CRC-32, most significant digit first. */
export function keyChecksum(payload: string): string {
  let rest = crc32(payload)
  let digits = ''
  for (let place = 0; place < checksumLength; place += 1) {
    digits = alphabet.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

function base62(number: bigint, length: number): string {
  let rest = number
  let digits = ''
  for (let place = 0; place < length; place += 1) {
    digits = alphabet.charAt(Number(rest % 62n)) + digits
    rest /= 62n
  }
  return digits
}

/** Keeps the secret in a private field, so that a key that ends up in a log or an error by accident prints its mask. */
class CheckedKey implements ParsedKey {
  readonly #value: string
  #hash: KeyHash | undefined

  constructor(value: string) {
    this.#value = value
  }

  get value(): string {
    return this.#value
  }

  get hash(): KeyHash {
    this.#hash ??= hashKey(this.#value)
    return this.#hash
  }

  toString(): string {
    return maskKey(this.#value)
  }

  toJSON(): string {
    return maskKey(this.#value)
  }

  [inspect.custom](): string {
    return maskKey(this.#value)
  }
}
