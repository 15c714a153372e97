import type { RequestInfo } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { BlobStore, PendingBlob } from '../blob/blob-store.ts'
import { isBlobRecorded, lockBlob } from './store.ts'

/** Keeps a settled blob if a row names its hash, and deletes it otherwise. No transaction waits for a bucket. */
export async function finalizeBlob(
  { db, blobs }: { readonly db: Pick<TenantDb, 'write'>; readonly blobs: BlobStore },
  context: RequestInfo['context'],
  blob: PendingBlob,
): Promise<boolean> {
  const isRecorded = await db.write(context, async (tx) => {
    await lockBlob(tx, blob.sha256)
    const isNamed = await isBlobRecorded(tx, blob.sha256)
    if (!isNamed) await blobs.remove(blob)
    return isNamed
  })
  await blobs.finish(blob, isRecorded ? 'kept' : 'gone')
  return isRecorded
}
