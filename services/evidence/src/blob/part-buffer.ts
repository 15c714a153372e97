import { freeChunk } from '@postern/service-kit'

/** Bytes of a part of an object. Amazon's S3 takes parts from 5 MiB on, and 10,000 of them: this is for 78 GiB. */
export const partBytes = 8 * 1024 * 1024

const firstBytes = 64 * 1024

/** Collects bytes up to a part, in memory that grows with them and is used again for the part after. */
export interface PartBuffer {
  /** Bytes that are held. */
  readonly length: number
  /** Takes as much of the chunk as there is room for, and gives the rest. */
  add(chunk: Uint8Array): Uint8Array
  isFull(): boolean
  /** What is held: valid until the next `add`. */
  bytes(): Uint8Array
  clear(): void
  /**
   * Gives the memory back at once: the collector would let some of these gather first. For who uses it no more and knows that
   * nobody reads it (`Sent.isOver` of all that was sent from it): whoever still did would find the memory of others.
   */
  release(): void
}

export function createPartBuffer(): PartBuffer {
  let buffer = Buffer.allocUnsafeSlow(firstBytes)
  let length = 0
  return {
    get length() {
      return length
    },
    add: (chunk) => {
      const taken = Math.min(chunk.byteLength, partBytes - length)
      if (length + taken > buffer.byteLength) {
        const larger = Buffer.allocUnsafeSlow(Math.min(partBytes, Math.max(buffer.byteLength * 4, length + taken)))
        buffer.copy(larger, 0, 0, length)
        freeChunk(buffer)
        buffer = larger
      }
      buffer.set(chunk.subarray(0, taken), length)
      length += taken
      return chunk.subarray(taken)
    },
    isFull: () => length === partBytes,
    bytes: () => buffer.subarray(0, length),
    clear: () => {
      length = 0
    },
    release: () => {
      length = 0
      freeChunk(buffer)
      buffer = Buffer.alloc(0)
    },
  }
}
