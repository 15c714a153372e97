import { parseKey } from './format.ts'
import { maskKey } from './mask.ts'

/** A key in a text, masked, so that reporting a leak does not repeat it. */
export interface FoundKey {
  readonly masked: string
  readonly index: number
}

const keysPattern = /postern_[0-9A-Za-z]{49}/g

/** Returns every key with a valid checksum in a text. */
export function findKeys(text: string): FoundKey[] {
  return [...text.matchAll(keysPattern)].flatMap(({ 0: value, index }) =>
    parseKey(value) === undefined ? [] : [{ masked: maskKey(value), index }],
  )
}

/** Replaces everything that has the form of a key with its mask. */
export function maskKeys(text: string): string {
  return text.replaceAll(keysPattern, (value) => maskKey(value))
}
