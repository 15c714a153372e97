import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { notRecorded, overQuota } from './refusal.ts'
import { findUsage, recordFailure } from './store.ts'

/**
 * Throws where a tenant may not keep so many bytes more. Asked before they are taken; the last word is the transaction's
 * in which they are recorded.
 */
export async function assertRoom(
  { db }: Pick<Deps, 'db'>,
  context: RequestInfo['context'],
  bytes: number,
  tenantQuotaBytes: number | undefined,
): Promise<void> {
  if (tenantQuotaBytes === undefined) return
  const used = await reading(async () => await db.read(context, findUsage))
  if (used + BigInt(bytes) > tenantQuotaBytes) throw overQuota(tenantQuotaBytes)
}

/** Runs a look-up whose failure is told as that of an upload. */
export async function reading<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw notRecorded(recordFailure(error), error)
  }
}
