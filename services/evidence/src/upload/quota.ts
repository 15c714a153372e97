import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { notRecorded, overQuota } from './refusal.ts'
import { type Actor, recordFailure } from './store.ts'
import {
  countReserved,
  expireReservation,
  findLapsing,
  findUsedRoom,
  insertReservation,
  lockUsage,
  takeBack,
} from './usage-store.ts'

/** What wants room in a tenant. */
export interface Room {
  readonly bytes: number
  /** The resumable upload by which it comes, whose room was promised when it was begun. */
  readonly uploadId?: string | undefined
}

type Context = RequestInfo['context']

/**
 * Throws where a tenant may not keep so many bytes more, beside what it keeps and what its resumable uploads were promised
 * room for. Asked before they are taken; the last word has the reservation.
 */
export async function assertRoom(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  { bytes, uploadId }: Room,
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const used = await reading(async () => await db.read(context, async (tx) => await findUsedRoom(tx, uploadId)))
  if (used + BigInt(bytes) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/**
 * Counts files to what the tenant keeps, before they are recorded, and gives the id of the reservation. Throws where that is more
 * than the tenant may. It is a transaction of its own that waits for no disk and no standby, so that uploads of a tenant do not wait
 * for each other's commits; the commit of the upload follows it. A reservation that nobody ends expires after ten minutes.
 */
export async function reserveQuota(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  { bytes, files, uploadId }: Room & { readonly files: number },
  tenantQuotaBytes: number | undefined,
): Promise<string> {
  return await db.write(context, async (tx) => {
    const [, , used] = await Promise.all([lockUsage(tx), takeBack(tx, undefined), findUsedRoom(tx, uploadId)])
    if (tenantQuotaBytes !== undefined && used + BigInt(bytes) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
    return await insertReservation(tx, { bytes, files, uploadId })
  })
}

/** Keeps what was reserved, in the transaction that records it. */
export async function consumeReservation(tx: Tx, reservationId: string): Promise<void> {
  if (await countReserved(tx, reservationId)) return
  throw notRecorded('unavailable', new Error('the reservation of room has expired'))
}

/** Gives back what was reserved for an upload that was not recorded. Where that fails, the reservation expires by itself. */
export async function releaseReservation(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  reservationId: string | undefined,
): Promise<void> {
  if (reservationId === undefined) return
  await db
    .write(context, async (tx) => {
      await Promise.all([lockUsage(tx), takeBack(tx, reservationId)])
    })
    .catch(() => undefined)
}

/**
 * Reserves room for a resumable upload that is to be begun, the whole of its length: who may begin may also end, whatever others
 * bring meanwhile. Undefined where there is no quota.
 */
export async function reserveUpload(
  deps: Pick<Deps, 'db'>,
  context: Context,
  length: number,
  tenantQuotaBytes: number | undefined,
): Promise<string | undefined> {
  if (tenantQuotaBytes === undefined) return undefined
  return await reserveQuota(deps, context, { bytes: length, files: 0 }, tenantQuotaBytes)
}

/** Passes reserved room on to the resumable upload that is begun in the same transaction, which counts from then on. */
export async function passToUpload(tx: Tx, reservationId: string | undefined): Promise<void> {
  if (reservationId !== undefined) await expireReservation(tx, reservationId)
}

/**
 * Reserves room once more for a resumable upload whose promise has lapsed, or soon will: others may have been promised the room
 * meanwhile. Undefined if its promise holds. Pass the reservation on in the transaction in which the upload continues.
 */
export async function reserveLapsed(
  deps: Pick<Deps, 'db'>,
  context: Context,
  { uploadId, actor }: { readonly uploadId: string; readonly actor: Actor },
  tenantQuotaBytes: number | undefined,
): Promise<string | undefined> {
  if (tenantQuotaBytes === undefined) return undefined
  const bytes = await deps.db.read(context, async (tx) => await findLapsing(tx, uploadId, actor))
  if (bytes === undefined) return undefined
  return await reserveQuota(deps, context, { bytes, files: 0, uploadId }, tenantQuotaBytes)
}

/** Runs a look-up whose failure is told as that of an upload. */
export async function reading<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw notRecorded(recordFailure(error), error)
  }
}
