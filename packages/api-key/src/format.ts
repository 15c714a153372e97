import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { crc32 } from 'node:zlib'

import { type KeyHash, hashKey } from './hash.ts'
import { lastFourOf, maskKey } from './mask.ts'

/** Secret scanners find leaked keys by this prefix. */
export const keyPrefix = 'postern_'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretBytes = 32
/** 62^43 is the first power of 62 above 2^256. */
const secretLength = 43
/** 62^6 is the first power of 62 above 2^32. */
const checksumLength = 6
const checksumAt = keyPrefix.length + secretLength

export const keyLength: number = checksumAt + checksumLength

// A fixed repeat between anchors keeps matching linear. Without the m flag, `$` does not match before a final line
// feed.
const keyPattern = /^postern_[0-9A-Za-z]{49}$/

/** Only the keys service knows whether the key exists. */
export interface ParsedKey {
  /** Not enumerable: printing or serialising the object shows the mask. */
  readonly value: string
  /** Computed on first read. */
  readonly hash: KeyHash
}

/** Show `value` to its owner once; store `hash` and `lastFour`. */
export interface GeneratedKey {
  readonly value: string
  readonly hash: KeyHash
  readonly lastFour: string
}

/** 256 random bits from the operating system. */
export function generateKey(): GeneratedKey {
  const payload = keyPrefix + base62(BigInt(`0x${randomBytes(secretBytes).toString('hex')}`), secretLength)
  const value = payload + keyChecksum(payload)
  return { value, hash: hashKey(value), lastFour: lastFourOf(value) }
}

/** Undefined if the form or the CRC-32 checksum is wrong. The checksum is not secret. */
export function parseKey(text: string): ParsedKey | undefined {
  if (text.length !== keyLength || !keyPattern.test(text)) return undefined
  if (text.slice(checksumAt) !== keyChecksum(text.slice(0, checksumAt))) return undefined
  return new MaskedKey(text)
}

/** Six base62 characters, most significant first. */
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

/** Logs and errors show only the mask. */
class MaskedKey implements ParsedKey {
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
