import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { notRecorded, overQuota } from './refusal.ts'
import { type Actor, recordFailure } from './store.ts'
import { addUsage, findLapsing, findPromised, findUsage } from './usage-store.ts'

/** What wants room in a tenant. */
export interface Room {
  readonly bytes: number
  /** The resumable upload by which it comes, whose room was promised when it was begun. */
  readonly uploadId?: string | undefined
}

/**
 * Throws where a tenant may not keep so many bytes more, beside what it keeps and what its resumable uploads were promised
 * room for. Asked before they are taken; the last word is the transaction's in which they are recorded.
 */
export async function assertRoom(
  { db }: Pick<Deps, 'db'>,
  context: RequestInfo['context'],
  { bytes, uploadId }: Room,
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const [used, promised] = await reading(
    async () => await db.read(context, async (tx) => await Promise.all([findUsage(tx), findPromised(tx, uploadId)])),
  )
  if (used + promised + BigInt(bytes) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/**
 * Counts files to what the tenant keeps. The row of its usage stays locked to the end of the transaction, so that of all who
 * keep or promise something at once each sees what those before have taken. Throws where that is more than the tenant may.
 */
export async function takeRoom(
  tx: Tx,
  { bytes, files, uploadId }: Room & { readonly files: number },
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  const used = await addUsage(tx, bytes, files)
  if (tenantQuotaBytes === undefined) return
  if (used + (await findPromised(tx, uploadId)) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/**
 * Makes sure of room for a resumable upload that is begun in the same transaction, under the same lock. It is promised the
 * whole of its length: who may begin may also end, whatever others bring meanwhile.
 */
export async function promiseRoom(tx: Tx, length: number, tenantQuotaBytes: number | undefined): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const used = await addUsage(tx, 0, 0)
  if (used + (await findPromised(tx, undefined)) + BigInt(length) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/**
 * Makes sure of room once more for a resumable upload whose promise has lapsed, or is about to, and which is gone on with in
 * the same transaction: others may have been promised the room meanwhile. To be called before the upload is locked, since who
 * completes one locks the usage of its tenant first.
 */
export async function promiseRoomAgain(
  tx: Tx,
  { uploadId, actor }: { readonly uploadId: string; readonly actor: Actor },
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const length = await findLapsing(tx, uploadId, actor)
  if (length === undefined) return
  const used = await addUsage(tx, 0, 0)
  if (used + (await findPromised(tx, uploadId)) + length > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/** Runs a look-up whose failure is told as that of an upload. */
export async function reading<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw notRecorded(recordFailure(error), error)
  }
}
