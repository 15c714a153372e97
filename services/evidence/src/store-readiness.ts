import { Gauge } from '@prometheus-io/client'
import type { Logger, Registry } from '@postern/service-kit'
import type { BlobStore } from './blob/blob-store.ts'

const probeEveryMs = 10_000
const probeAtMostEveryMs = 1_000
const probeTimeoutMs = 10_000
const uploadFailureMs = 5 * 60_000

export interface StoreWatch {
  ready(): Promise<void>
  recordFailure(error: unknown): void
  close(): void
}

/**
 * Watches whether the store accepts files. An unwritable directory makes the replica unready. A bucket does so only until
 * it was reached once, which stops a release with wrong credentials.
 */
export async function watchStore(
  blobs: Pick<BlobStore, 'isRemote' | 'assertWritable'>,
  { metrics, logger }: { readonly metrics: Registry; readonly logger: Logger },
): Promise<StoreWatch> {
  const writable = new Gauge({
    name: 'postern_evidence_store_writable',
    help: 'Whether the evidence store accepts files: 0 after a failed probe, and for 5 minutes after an upload that the store failed',
    registers: [metrics],
  })
  let wasWritable = false
  let isWritable: boolean | undefined
  let startedAt = -Infinity
  let uploadFailedAt = -Infinity
  let last: Promise<void> = Promise.resolve()
  let isProbing = false

  function report(probeSucceeded: boolean, error?: unknown): void {
    const isNow = probeSucceeded && performance.now() >= uploadFailedAt + uploadFailureMs
    writable.set(isNow ? 1 : 0)
    if (isNow === isWritable) return
    if (!isNow) logger.error({ event: 'store_unwritable', err: error })
    else if (isWritable !== undefined) logger.info({ event: 'store_writable' })
    isWritable = isNow
  }

  async function runProbe(): Promise<void> {
    const attempt = blobs.assertWritable().finally(() => {
      isProbing = false
    })
    try {
      await withTimeout(attempt, probeTimeoutMs)
      wasWritable = true
      report(true)
    } catch (error) {
      report(false, error)
      throw error
    }
  }

  function probe(): Promise<void> {
    if (isProbing || performance.now() < startedAt + probeAtMostEveryMs) return last
    isProbing = true
    startedAt = performance.now()
    last = runProbe()
    last.catch(() => undefined)
    return last
  }

  const first = probe().catch(() => undefined)
  if (!blobs.isRemote) await first
  const timer = setInterval(() => void probe().catch(() => undefined), probeEveryMs)
  timer.unref()

  return {
    ready: async () => {
      const probed = probe()
      if (!(blobs.isRemote && wasWritable)) await probed
    },
    recordFailure: (error) => {
      uploadFailedAt = performance.now()
      report(false, error)
    },
    close: () => clearInterval(timer),
  }
}

async function withTimeout<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => timeout.reject(new Error(`The store did not answer within ${timeoutMs} ms.`)),
    timeoutMs,
  )
  try {
    return await Promise.race([work, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
