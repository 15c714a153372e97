import { freeChunk } from '@postern/service-kit'
import type { PartRoom } from './part-room.ts'

/** Bytes of a part of an object. Amazon's S3 takes parts from 5 MiB on, and 10,000 of them: this is for 78 GiB. */
export const partBytes = 8 * 1024 * 1024

const firstBytes = 64 * 1024

/** What a buffer may hold without room of its own: who sends little, or slowly, keeps nobody from sending. */
export const freeBytes = 1024 * 1024

/** Collects bytes up to a part, in memory that grows with them and is used again for the part after. */
export interface PartBuffer {
  /** Bytes that are held. */
  readonly length: number
  /** Whether it holds room that others may wait for. */
  readonly hasRoom: boolean
  /** Waits until so many bytes more find room, or as many as the part has. Rejects where there is none in time. */
  reserve(bytes: number): Promise<void>
  /** Takes as much of the chunk as the part has room for, and gives the rest. Waits as `reserve` does. */
  add(chunk: Uint8Array): Promise<Uint8Array>
  isFull(): boolean
  /** What is held: valid until the next `add`. */
  bytes(): Uint8Array
  /** Forgets what was sent, and leaves the room to who waits for it. `isOver`: no attempt to send it is still under way. */
  clear(isOver: boolean): void
  /**
   * Gives the room back, and the memory at once where nobody can still be reading it (`isOver` of all that was sent, and of
   * what was not): the collector would let some of these gather first, and whoever still read would find that of others.
   * Harmless when repeated.
   */
  release(isOver: boolean): void
}

export function createPartBuffer(room: PartRoom): PartBuffer {
  let buffer = Buffer.allocUnsafeSlow(firstBytes)
  let length = 0
  let giveBack: (() => void) | undefined
  let isAllOver = true
  const drop = (): void => {
    length = 0
    if (isAllOver) freeChunk(buffer)
    buffer = Buffer.alloc(0)
    isAllOver = true
    giveBack?.()
    giveBack = undefined
  }
  const reserve = async (bytes: number): Promise<void> => {
    if (giveBack === undefined && Math.min(partBytes, length + bytes) > freeBytes) giveBack = await room.take()
  }
  return {
    get length() {
      return length
    },
    get hasRoom() {
      return giveBack !== undefined
    },
    reserve,
    add: async (chunk) => {
      const taken = Math.min(chunk.byteLength, partBytes - length)
      await reserve(taken)
      if (length + taken > buffer.byteLength) {
        const most = giveBack === undefined ? freeBytes : partBytes
        const wanted = Math.max(firstBytes, buffer.byteLength * 4, length + taken)
        const larger = Buffer.allocUnsafeSlow(Math.min(most, wanted))
        buffer.copy(larger, 0, 0, length)
        if (isAllOver) freeChunk(buffer)
        buffer = larger
        isAllOver = true
      }
      buffer.set(chunk.subarray(0, taken), length)
      length += taken
      return chunk.subarray(taken)
    },
    isFull: () => length === partBytes,
    bytes: () => buffer.subarray(0, length),
    clear: (isOver) => {
      length = 0
      isAllOver = isAllOver && isOver
      if (giveBack !== undefined && room.isAwaited()) drop()
    },
    release: (isOver) => {
      isAllOver = isAllOver && isOver
      drop()
    },
  }
}
