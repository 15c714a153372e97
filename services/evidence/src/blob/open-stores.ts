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
  if (config.kind === 'directory') return await openDirectory(config.path)
  const { openS3Objects } = await import('./s3-objects.ts')
  const { openS3BlobStore } = await import('./s3-blob-store.ts')
  const { openS3PartialStore } = await import('./s3-partial-store.ts')
  const { openPartRoom, waitForRoomMs } = await import('./part-room.ts')
  const objects = openS3Objects(config)
  const room = openPartRoom(config.parts, waitForRoomMs)
  return {
    blobs: openS3BlobStore(objects, room),
    partials: openS3PartialStore(objects, room),
    close: () => objects.close(),
  }
}

async function openDirectory(path: string): Promise<Stores> {
  return { blobs: await openBlobStore(path), partials: await openPartialStore(path), close: () => undefined }
}
