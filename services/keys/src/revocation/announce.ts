import type { Revocation } from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { KeyCache } from '../key-cache.ts'
import { findKeyRecord } from '../lookup/store.ts'

/** Announces committed changes to gateways over Redis; enforcement does not depend on it. */
export interface Announcer {
  announce(change: Revocation): void
  close(): Promise<void>
}

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

  // Read after the commit, so that the stored record is the tombstone or the narrowed key.
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
