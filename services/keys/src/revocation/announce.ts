import type { Revocation } from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import type { KeyCache } from '../key-cache.ts'
import { findKeyRecord, findKeyRecords } from '../lookup/store.ts'

const batchSize = 100

/** Announces committed changes to gateways over Redis; enforcement does not depend on it. */
export interface Announcer {
  announce(change: Revocation): void
  /** Announces changes of many keys, some at a time. */
  announceKeys(changes: readonly Revocation[]): void
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

  // Reads after the commit, so that Redis gets the tombstone or the narrowed key.
  async function replaceRecord(hash: string): Promise<void> {
    const { record } = await db.system(async (tx) => await findKeyRecord(tx, hash))
    if (record !== undefined) cache.store(record)
  }

  async function announceAll(changes: readonly Revocation[]): Promise<void> {
    for (let start = 0; start < changes.length; start += batchSize) {
      const some = changes.slice(start, start + batchSize)
      for (const change of some) cache.publish(change)
      const hashes = some.flatMap((change) => (change.kind === 'key' ? [change.hash] : []))
      const { records } = await db.system(async (tx) => await findKeyRecords(tx, hashes))
      for (const record of records) if (record !== undefined) cache.store(record)
    }
  }

  function run(work: Promise<void>, seq: number | undefined): void {
    const task = work.catch((error: unknown) => {
      logger.warn({ event: 'announce_failed', seq, err: error })
    })
    underWay.add(task)
    void task.then(() => underWay.delete(task))
  }

  return {
    announce: (change) => {
      cache.publish(change)
      if (change.kind === 'key') run(replaceRecord(change.hash), change.seq)
    },
    announceKeys: (changes) => run(announceAll(changes), changes.at(-1)?.seq),
    close: async () => {
      await Promise.all(underWay)
    },
  }
}
