/** Bytes of a block: what goes to the disk in one call. */
export const blockBytes = 512 * 1024

/** Of memory and of files: what `O_DIRECT` asks for on every file system that has it. */
export const pageBytes = 4096

/** A piece of memory that the thread of digests sees too, and that the kernel can write to a disk from without copying it. */
export interface Block {
  readonly bytes: Buffer
  /** Where the block begins in the shared memory. */
  readonly offset: number
  /** Gives it to the next who waits. To be called once, when nobody reads it any more. */
  release(): void
}

export interface Blocks {
  /** All of them, to be shared with a thread. */
  readonly memory: SharedArrayBuffer
  /** The next block that is free, in the order of asking. Rejects with NoBlockFree where there is none for so long (milliseconds). */
  take(waitMs: number): Promise<Block>
}

/** All blocks are with others, who wait for a store that has stopped taking bytes. */
export class NoBlockFree extends Error {}

// The one kind of memory in JavaScript that begins at a page: that of an ArrayBuffer begins where malloc happens to give it.
declare const WebAssembly: {
  readonly Memory: new (limits: { initial: number; maximum: number; shared: true }) => {
    readonly buffer: SharedArrayBuffer
  }
}
const wasmPageBytes = 64 * 1024

const aligned = new WeakSet<object>()

/** Whether the bytes can be written with `O_DIRECT`: whole pages of a block, from one of its pages on. */
export function isOfWholePages({ buffer, byteOffset, byteLength }: Uint8Array): boolean {
  return aligned.has(buffer) && byteOffset % pageBytes === 0 && byteLength % pageBytes === 0
}

/** Makes so many blocks, which is all the memory that there will ever be; what was never used takes none. */
export function openBlocks(count: number): Blocks {
  const pages = (count * blockBytes) / wasmPageBytes
  const { buffer } = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  aligned.add(buffer)
  // The last that was given back first: it is in the processor's cache.
  const free = Array.from({ length: count }, (_none, at) => (count - 1 - at) * blockBytes)
  const waiting = new Set<(offset: number) => void>()
  const next = async (waitMs: number): Promise<number> =>
    await new Promise((resolve, reject) => {
      const give = (offset: number): void => {
        clearTimeout(limit)
        waiting.delete(give)
        resolve(offset)
      }
      const limit = setTimeout(() => {
        waiting.delete(give)
        reject(new NoBlockFree('no block was free in time'))
      }, waitMs)
      waiting.add(give)
    })
  const blockAt = (offset: number): Block => ({
    bytes: Buffer.from(buffer, offset, blockBytes),
    offset,
    release: () => {
      const [first] = waiting
      if (first === undefined) free.push(offset)
      else first(offset)
    },
  })
  return {
    memory: buffer,
    take: async (waitMs) => blockAt(free.pop() ?? (await next(waitMs))),
  }
}
