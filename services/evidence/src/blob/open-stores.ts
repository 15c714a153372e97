import type { S3Config, StoreConfig } from '../store-config.ts'
import type { BlobStore } from './blob-store.ts'
import { openBlobStore } from './directory-blob-store.ts'
import { createPartMemory } from './part-memory.ts'
import { createPartSpools } from './part-spool.ts'
import { type PartialStore, openPartialStore } from './partial-store.ts'
import type { S3Objects } from './s3-objects.ts'

export interface Stores {
  readonly blobs: BlobStore
  readonly partials: PartialStore
  close(): void
}

export interface BucketStores extends Stores {
  readonly objects: S3Objects
}

export async function openStores(config: StoreConfig): Promise<Stores> {
  return config.kind === 'directory' ? await openDirectory(config.path) : await openBucketStores(config)
}

export async function openBucketStores(config: S3Config): Promise<BucketStores> {
  const { openS3Objects } = await import('./s3-objects.ts')
  const { openS3BlobStore } = await import('./s3-blob-store.ts')
  const { openS3PartialStore } = await import('./s3-partial-store.ts')
  const objects = openS3Objects(config)
  const spools = createPartSpools(config.spoolDirectory, createPartMemory(config.parts))
  await spools.assertWritable()
  return {
    blobs: openS3BlobStore(objects, spools),
    partials: openS3PartialStore(objects, spools),
    objects,
    close: () => objects.close(),
  }
}

async function openDirectory(path: string): Promise<Stores> {
  return { blobs: await openBlobStore(path), partials: await openPartialStore(path), close: () => undefined }
}
