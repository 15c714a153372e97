import type { HeldPart } from './part-buffer.ts'
import type { S3Objects, Sent } from './s3-objects.ts'

/**
 * Bytes of a part that is too small to be sent as one, set aside as objects of their own: their sender is slow, and others
 * need the memory. Names are below `aside/`, of which the sweep takes by age what a crash leaves.
 */
export interface Aside {
  /** Bytes that are set aside. */
  readonly length: number
  put(bytes: Uint8Array): Promise<Sent>
  /** Reads them back, before what came after them. */
  restore(part: HeldPart): Promise<void>
  /** Deletes them. What cannot be deleted is left to the sweep. */
  clear(): Promise<void>
}

export function createAside(
  objects: Pick<S3Objects, 'put' | 'read' | 'deleteAll'>,
  tenantId: string,
  random: string,
): Aside {
  let keys: string[] = []
  let length = 0
  // Never again the same name: a PUT or a DELETE that was given up on may still be carried out, on what has the name by then.
  let puts = 0
  const clear = async (): Promise<void> => {
    const gone = keys
    keys = []
    length = 0
    await objects.deleteAll(gone).catch(() => undefined)
  }
  return {
    get length() {
      return length
    },
    put: async (bytes) => {
      const key = `aside/${tenantId}/${random}/${String(puts).padStart(6, '0')}`
      puts += 1
      keys.push(key)
      const sent = await objects.put(key, bytes)
      length += bytes.byteLength
      return sent
    },
    restore: async (part) => {
      if (length === 0) return
      const countNow = () => length
      await part.prepend(countNow, async (target) => {
        let at = 0
        for (const key of keys) {
          for await (const chunk of await objects.read(key)) {
            if (!Buffer.isBuffer(chunk)) throw new TypeError('an object must be read as bytes')
            target.set(chunk, at)
            at += chunk.length
          }
        }
        if (at !== target.length) throw new Error('the store gives another number of bytes than it was sent')
      })
      await clear()
    },
    clear,
  }
}
