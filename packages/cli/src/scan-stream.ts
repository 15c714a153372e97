import { findKeys, keyLength } from '@postern/api-key'

export interface KeyInStream {
  readonly masked: string
  readonly line: number
}

/** Finds keys in a stream with constant memory. Skips zero bytes, so that UTF-16 text is read too. */
export class StreamScanner {
  #rest = ''
  #line = 1

  /** Returns the keys that end in this chunk. */
  push(chunk: Buffer): KeyInStream[] {
    const text = this.#rest + chunk.toString('latin1').replaceAll('\0', '')
    // A key that the chunk cuts off is found whole in the next one; a whole one must not be found twice.
    const found = findKeys(text)
    const lastEnd = found.reduce((end, { index }) => Math.max(end, index + keyLength), 0)
    const keepFrom = Math.max(lastEnd, text.length - keyLength + 1, 0)
    const keys = found.map(({ masked, index }) => ({ masked, line: this.#line + countLines(text, index) }))
    this.#line += countLines(text, keepFrom)
    this.#rest = text.slice(keepFrom)
    return keys
  }
}

function countLines(text: string, end: number): number {
  let lines = 0
  for (let at = text.indexOf('\n'); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) lines += 1
  return lines
}
