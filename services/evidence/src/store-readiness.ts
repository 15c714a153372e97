import { Gauge } from 'prom-client'
import type { Registry } from '@postern/service-kit'
import type { BlobStore } from './blob/blob-store.ts'

/**
 * Whether the store of evidence keeps this process from being ready. A directory that cannot be written is a fault of this replica
 * alone. A bucket is the same for all: without it nothing new is taken, and everything else goes on, so that only who has never
 * found it is not ready. That stops a release whose key of the bucket is wrong.
 */
export function watchStore(
  blobs: Pick<BlobStore, 'isRemote' | 'assertWritable'>,
  metrics: Registry,
): () => Promise<void> {
  const writable = new Gauge({
    name: 'postern_evidence_store_writable',
    help: 'Whether the store of evidence took something when it was last asked, as it is whenever readiness is',
    registers: [metrics],
  })
  let wasWritable = false
  let underWay: Promise<void> | undefined

  async function look(): Promise<void> {
    try {
      await blobs.assertWritable()
      writable.set(1)
      wasWritable = true
    } catch (error) {
      writable.set(0)
      throw error
    } finally {
      underWay = undefined
    }
  }

  return async () => {
    underWay ??= look()
    if (blobs.isRemote && wasWritable) underWay.catch(() => undefined)
    else await underWay
  }
}
