import type { RequestInfo } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import type { Deps } from '../deps.ts'
import { recordingProblem, quotaProblem } from './refusal.ts'
import { recordFailure } from './store.ts'
import {
  deleteReservation,
  expireReservation,
  findLapsing,
  findUsedQuota,
  insertReservation,
  lockUsage,
  subtractReservations,
} from './usage-store.ts'

export interface RequestedQuota {
  readonly bytes: number
  readonly uploadId?: string | undefined
}

type Context = RequestInfo['context']

export async function assertQuota(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  { bytes, uploadId }: RequestedQuota,
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const used = await reportLookupFailure(
    async () => await db.read(context, async (tx) => await findUsedQuota(tx, uploadId)),
  )
  if (used + BigInt(bytes) > tenantQuotaBytes) throw quotaProblem(tenantQuotaBytes)
}

/**
 * Reserves quota for ten minutes, and returns the id of the reservation. Throws if the quota is exceeded. The commit is
 * asynchronous, so that uploads do not wait for each other.
 */
export async function reserveQuota(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  { bytes, files, uploadId }: RequestedQuota & { readonly files: number },
  tenantQuotaBytes: number | undefined,
): Promise<string> {
  return await db.write(context, async (tx) => {
    const [, , used] = await Promise.all([
      lockUsage(tx),
      subtractReservations(tx, undefined),
      findUsedQuota(tx, uploadId),
    ])
    if (tenantQuotaBytes !== undefined && used + BigInt(bytes) > tenantQuotaBytes) throw quotaProblem(tenantQuotaBytes)
    return await insertReservation(tx, { bytes, files, uploadId })
  })
}

export async function consumeReservation(tx: Tx, reservationId: string): Promise<void> {
  if (await deleteReservation(tx, reservationId)) return
  throw recordingProblem('unavailable', new Error('the reservation of quota has expired'))
}

/** If it fails, the reservation expires. */
export async function releaseReservation(
  { db }: Pick<Deps, 'db'>,
  context: Context,
  reservationId: string | undefined,
): Promise<void> {
  if (reservationId === undefined) return
  await db
    .write(context, async (tx) => {
      await Promise.all([lockUsage(tx), subtractReservations(tx, reservationId)])
    })
    .catch(() => undefined)
}

/** Undefined without a quota. */
export async function reserveUpload(
  deps: Pick<Deps, 'db'>,
  context: Context,
  length: number,
  tenantQuotaBytes: number | undefined,
): Promise<string | undefined> {
  if (tenantQuotaBytes === undefined) return undefined
  return await reserveQuota(deps, context, { bytes: length, files: 0 }, tenantQuotaBytes)
}

export async function transferReservation(tx: Tx, reservationId: string | undefined): Promise<void> {
  if (reservationId !== undefined) await expireReservation(tx, reservationId)
}

/**
 * Reserves quota again if the upload's own claim has lapsed or will soon. Transfer the reservation in the transaction that
 * continues the upload.
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

export async function reportLookupFailure<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw recordingProblem(recordFailure(error), error)
  }
}
