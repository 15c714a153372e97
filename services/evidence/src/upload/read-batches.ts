import { type Readable, finished } from 'node:stream'

/** Bytes that are handed on in one: handing on each chunk of 64 KiB costs more than what is done with it. */
const batchBytes = 512 * 1024
/** Chunks may be tiny, and each is more in memory than its bytes. */
const batchChunks = 64

interface BatchReader {
  /** The first batch comes as soon as there are so many bytes. */
  readonly firstBytes: number
  /** Called with each chunk as it arrives; what it throws ends the reading. */
  readonly onChunk: (chunk: Buffer) => void
  /**
   * Takes the next chunks, one batch after the other, while the batch behind it arrives: at most two are in memory, which
   * is how a slow disk slows its client. A rejection ends the reading.
   */
  readonly onBatch: (batch: readonly Buffer[]) => Promise<void>
}

const ignore = (): void => undefined

/**
 * Reads a stream of bytes to its end. Rejects when it breaks off, or one of the functions fails; no call is then under way,
 * and the stream stands still, but is left open: to destroy it would cut the answer off too.
 */
export async function readBatches(body: Readable, { firstBytes, onChunk, onBatch }: BatchReader): Promise<void> {
  const over = Promise.withResolvers<void>()
  let gathered: Buffer[] = []
  let bytes = 0
  let wanted = firstBytes
  let passing: Promise<void> | undefined
  const isThere = (): boolean => bytes >= wanted || gathered.length >= batchChunks
  const pass = async (): Promise<void> => {
    try {
      while (isThere()) {
        const batch = gathered
        gathered = []
        bytes = 0
        wanted = batchBytes
        if (body.isPaused()) body.resume()
        await onBatch(batch)
      }
      passing = undefined
    } catch (error) {
      // It stays what is under way: nothing is handed on any more, and who waits for it is told.
      over.reject(error)
      throw error
    }
  }
  const onData = (chunk: unknown): void => {
    try {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('a request body must be a stream of bytes')
      onChunk(chunk)
      gathered.push(chunk)
      bytes += chunk.length
      if (!isThere()) return
      if (passing !== undefined) {
        body.pause()
        return
      }
      passing = pass()
      // Told by `over`, or behind it.
      passing.catch(ignore)
    } catch (error) {
      over.reject(error)
    }
  }
  const forget = finished(body, { writable: false }, (error) => {
    if (error === undefined || error === null) over.resolve()
    else over.reject(error)
  })
  // It may also break off once nothing of it is wanted any more.
  body.on('error', ignore)
  body.on('data', onData)
  try {
    await over.promise
  } catch (error) {
    body.off('data', onData)
    body.pause()
    // What is under way is the last.
    gathered = []
    bytes = 0
    await passing?.catch(ignore)
    throw error
  } finally {
    forget()
    body.off('data', onData)
  }
  await passing
  if (bytes > 0) await onBatch(gathered)
}
