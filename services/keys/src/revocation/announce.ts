import type { Revocation } from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { KeyCache } from '../key-cache.ts'
import { findKeyRecord } from '../lookup/store.ts'

/** Tells the gateways of a change that is committed, as fast as Redis can. Nothing waits for it or depends on it. */
export interface Announcer {
  announce(change: Revocation): void
  /** Waits for what is under way. */
  close(): Promise<void>
}

/** Opens the announcer. */
export function openAnnouncer({
  db,
  cache,
  logger,
}: {
  readonly db: Pick<TenantDb, 'system'>
  readonly cache: KeyCache
  readonly logger: Logger
}): Announcer {
  const underWay = new Set<Promise<void>>()

  // The record is read again after the commit, so that what is stored is the tombstone, or the narrowed key, as it is now.
  async function replaceRecord(hash: string): Promise<void> {
    const { record } = await db.system(async (tx) => await findKeyRecord(tx, hash))
    if (record !== undefined) cache.store(record)
  }

  return {
    announce: (change) => {
      cache.publish(change)
      if (change.kind !== 'key') return
      const task = replaceRecord(change.hash).catch((error: unknown) => {
        logger.warn({ event: 'announce_failed', seq: change.seq, err: error })
      })
      underWay.add(task)
      void task.then(() => underWay.delete(task))
    },
    close: async () => {
      await Promise.all(underWay)
    },
  }
}
