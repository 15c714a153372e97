import { problem } from '@postern/service-kit'
import { createFairSemaphore } from './fair-semaphore.ts'

/** Amazon S3 accepts 10,000 parts, so an object may have 78 GiB. */
export const partBytes = 8 * 1024 * 1024

/** Buffers up to this size have permits of their own: `smallPerPart` for each part. */
const smallBytes = 1024 * 1024
const smallPerPart = 2

/** Buffers up to this size need no permit. */
const freeBytes = 64 * 1024

/** Shorter than the gateway's 30 s without progress, with time left to send. */
const waitMs = 20_000

export interface PartMemory {
  /** Waits until the tenant may use so many bytes. Rejects with a problem after 20 s. */
  acquire(tenantId: string, bytes: number, signal?: AbortSignal): Promise<PartLease>
}

export interface PartLease {
  readonly buffer: Buffer
  /** `isReusable`: nothing can still read the buffer. */
  release(isReusable: boolean): void
}

export function createPartMemory(parts: number): PartMemory {
  const options = { waitMs, timeoutError: tooManyUploadsProblem }
  const large = createFairSemaphore(parts, options)
  const small = createFairSemaphore(parts * smallPerPart, options)
  const unused: Buffer[] = []
  return {
    acquire: async (tenantId, bytes, signal) => {
      if (bytes <= freeBytes) return { buffer: Buffer.allocUnsafe(bytes), release: () => undefined }
      if (bytes <= smallBytes) {
        const release = await small.acquire(tenantId, signal)
        return { buffer: Buffer.allocUnsafe(bytes), release }
      }
      const release = await large.acquire(tenantId, signal)
      // The garbage collector is slow to free buffers of this size.
      const buffer = unused.pop() ?? Buffer.allocUnsafeSlow(partBytes)
      return {
        buffer: buffer.subarray(0, bytes),
        release: (isReusable) => {
          if (isReusable) unused.push(buffer)
          release()
        },
      }
    },
  }
}

function tooManyUploadsProblem(): Error {
  return problem('service_unavailable', {
    detail:
      'The evidence store receives too many files at the moment. There is no receipt; send the file again later, or resume a resumable upload at the offset that HEAD returns.',
    retryAfterSeconds: 30,
  })
}
