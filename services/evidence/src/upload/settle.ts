import type { Logger, RequestInfo } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { BlobStore, SettlingBlob } from '../blob/blob-store.ts'
import type { Afterwards } from './afterwards.ts'
import { isBlobRecorded, lockBlob } from './store.ts'

/** Entries looked at a time: one request must not pay for all that a long outage has left. */
const maxEntries = 20

/** After so many that cannot be decided now, more likely none can. */
const maxFailures = 3

type Context = RequestInfo['context']

interface Parts {
  readonly db: Pick<TenantDb, 'write'>
  readonly blobs: BlobStore
}

/**
 * Decides over uploads that ended between the store and the database: where a row names the bytes they stay, otherwise
 * they go. It runs beside a request of the tenant, since only then does the service hold an assertion that lets it see the
 * tenant's rows.
 */
export interface Settling {
  /** Looks for leftovers of the tenant and decides over them. Never rejects. */
  look(context: Context, signal: AbortSignal): Promise<void>
  /** The same, only where a sweep has seen some. Waits for nothing: for requests that bring no file. */
  lookIfSeen(context: Context): void
  /** Notes for which tenants there are leftovers. */
  see(tenants: ReadonlySet<string>): void
}

export function openSettling(
  { afterwards, ...parts }: Parts & { readonly afterwards: Afterwards },
  { abandonedAfterMs }: { readonly abandonedAfterMs: number },
  { logger, now }: { readonly logger: Logger; readonly now: () => number },
): Settling {
  let seen: ReadonlySet<string> = new Set()
  const busy = new Set<string>()
  const look = async (context: Context, signal: AbortSignal): Promise<void> => {
    const { tenantId } = context
    if (busy.has(tenantId)) return
    busy.add(tenantId)
    try {
      if (await settleLeftovers(parts, context, { olderThan: now() - abandonedAfterMs, signal, logger })) {
        seen = new Set([...seen].filter((tenant) => tenant !== tenantId))
      }
    } catch (error) {
      // What cannot be decided now is decided another time.
      logger.error({ event: 'settling_failed', err: error })
    } finally {
      busy.delete(tenantId)
    }
  }
  return {
    look,
    lookIfSeen: (context) => {
      if (seen.has(context.tenantId)) void afterwards.run(async (signal) => await look(context, signal))
    },
    see: (tenants) => {
      seen = tenants
    },
  }
}

/** Whether nothing is left. What cannot be decided now keeps none of the others waiting. */
async function settleLeftovers(
  parts: Parts,
  context: Context,
  { olderThan, signal, logger }: { readonly olderThan: number; readonly signal: AbortSignal; readonly logger: Logger },
): Promise<boolean> {
  const leftovers = await parts.blobs.listSettling(context.tenantId, olderThan)
  let decided = 0
  let failed = 0
  for (const blob of leftovers) {
    if (signal.aborted || decided === maxEntries || failed === maxFailures) return false
    try {
      const recorded = await settle(parts, context, blob)
      decided += 1
      logger.info({ event: 'upload_settled', recorded })
    } catch (error) {
      failed += 1
      logger.error({ event: 'settling_failed', err: error })
    }
  }
  return failed === 0
}

/**
 * Asks the database whether a blob's bytes stay, and does it. The transaction waits for no bucket: what is taken away there
 * belongs to this entry alone, which nobody records any more.
 */
export async function settle({ db, blobs }: Parts, context: Context, blob: SettlingBlob): Promise<boolean> {
  const isRecorded = await db.write(context, async (tx) => {
    await lockBlob(tx, blob.sha256)
    const isNamed = await isBlobRecorded(tx, blob.sha256)
    if (!isNamed) await blobs.remove(blob)
    return isNamed
  })
  await blobs.finish(blob, isRecorded ? 'kept' : 'gone')
  return isRecorded
}
