import type { StoreConfig } from '../store-config.ts'
import { type BlobStore, openBlobStore } from './blob-store.ts'
import { type PartialStore, openPartialStore } from './partial-store.ts'

/** Where bytes live, whole and in pieces. */
export interface Stores {
  readonly blobs: BlobStore
  readonly partials: PartialStore
  close(): void
}

/** Opens the stores that the configuration names. The library for buckets is read only where there is one. */
export async function openStores(config: StoreConfig): Promise<Stores> {
  if (config.kind === 'directory') {
    const blobs = await openBlobStore(config.path)
    return { blobs, partials: await openPartialStore(config.path), close: () => undefined }
  }
  const { openS3Objects } = await import('./s3-objects.ts')
  const { openS3BlobStore } = await import('./s3-blob-store.ts')
  const { openS3PartialStore } = await import('./s3-partial-store.ts')
  const objects = openS3Objects(config)
  return { blobs: openS3BlobStore(objects), partials: openS3PartialStore(objects), close: () => objects.close() }
}
